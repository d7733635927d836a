"""Files that settings name: what is read of them, and what a run keeps of them."""

import pytest
import yaml
from ragged_envs.given_files import keep_files, read_given

from entity_env.errors import SettingError
from ppo_trainer import TrainConfig
from ppo_trainer.config import config_from_dict, config_to_dict
from ppo_trainer.environments import make_factory, with_kept_files
from ppo_trainer.runs.bounded_yaml import parse_yaml

TABLE = 'job,machine,duration\n"chair, ${new}",saw,3\nSchrank: groß,saw,5\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_encodings_of_tables_are_read(tmp_path, encoding):
    path = tmp_path / "orders.csv"
    path.write_bytes(TABLE.encode(encoding))
    assert read_given("instance", path).text == TABLE


def test_a_run_keeps_the_text_of_its_files(tmp_path, monkeypatch):
    """From another folder, where another file has the same name, the run is about its own file."""
    (tmp_path / "orders.csv").write_text(TABLE)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "orders.csv").write_text("job,machine,duration\ntable,drill,9\n")
    monkeypatch.chdir(tmp_path)
    given = {"_target_": "job_shop", "instance": ["ta01", "orders.csv"]}
    config = with_kept_files(TrainConfig(env=given))
    monkeypatch.chdir(tmp_path / "b")
    (tmp_path / "orders.csv").unlink()
    text = yaml.safe_dump(config_to_dict(config), sort_keys=False).encode()
    again = with_kept_files(config_from_dict(parse_yaml(text)))
    assert again == config
    taillard, own = make_factory(again).rows(1, seed=0).instances
    assert taillard.best == 1231
    assert own.jobs == ("chair, ${new}", "Schrank: groß")


def test_a_file_too_large_for_a_run_folder_is_known_by_its_digest(tmp_path, monkeypatch):
    path = tmp_path / "orders.csv"
    path.write_text(TABLE + "chair,saw,3\n" * 2000)
    monkeypatch.chdir(tmp_path)
    kept = keep_files("instance", "orders.csv")
    assert kept["file"] == str(path)
    assert "text" not in kept
    monkeypatch.chdir("/")
    assert read_given("instance", kept).text == path.read_text()
    path.write_text(TABLE)
    with pytest.raises(SettingError, match="has changed since the run was begun"):
        read_given("instance", kept)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("order.csv", r"no file 'order.csv' in (?s:.*)did you mean 'orders.csv'"),
        ("x" * 5000, "no file"),
        ("a\0b", "no file"),
        (".", "no file"),
        (3, "invalid instance"),
        ({"file": "orders.csv", "txt": ""}, "invalid instance"),
        ({"text": ""}, "invalid instance"),
        ("binary", "line 2: this is no text"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch, named, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text(TABLE)
    (tmp_path / "binary").write_bytes(b"PK\n\x03\x04")
    with pytest.raises(SettingError, match=message):
        read_given("instance", named)
