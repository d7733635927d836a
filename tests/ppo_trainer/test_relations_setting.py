"""Relations come from the command line and from files as lists of lists."""

import pytest

from entity_env.errors import SettingError
from ppo_trainer import recipe
from ppo_trainer.config import config_from_dict, config_to_dict

BOTH = "net.relations=[[Job.machine,Machine.number],[Job.next machine,Machine.number]]"


def test_relations_are_lists_of_lists():
    config = recipe("job_shop", "env.labels=true", BOTH)
    pairs = (("Job.machine", "Machine.number"), ("Job.next machine", "Machine.number"))
    assert config.net.relations == pairs
    assert config_from_dict(config_to_dict(config)) == config


@pytest.mark.parametrize("relations", ["Job.machine", 3, [3], [["Job.machine", 3]]])
def test_other_values_are_refused(relations):
    with pytest.raises(SettingError, match=r"net\.relations"):
        config_from_dict({"net": {"relations": relations}})
