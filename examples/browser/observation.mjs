// One observation as the inputs of any exported network; entity_env/onnx_inputs.py does it in Python.

/**
 * The tensors that ONNX Runtime Web takes, by name, but for `memory`.
 *
 * spaces is what spaces.json of the run folder holds. An observation is
 *   { features: { Mine: [[x, y], ...], Robot: [...] }, global: [...],
 *     actions: { Move: { actors: [["Robot", 0], ...], mask: [[true, ...], ...] },
 *                Fire: { actors: [["Cannon", 0]], actees: [["Mine", 0], ...], mask: [[true, ...]] } } }
 * in which an entity is its type and its place among those of that type. What is left out is not
 * there: types without entities, actions that nobody takes. Without a mask everything is allowed.
 */
export function inputsOf(ort, observation, spaces) {
  const { features = {}, actions = {}, global = [] } = observation;
  const floats = (rows, width) => new ort.Tensor("float32", Float32Array.from(rows.flat()), [rows.length, width]);
  const whole = (numbers) => new ort.Tensor("int64", BigInt64Array.from(numbers.map(BigInt)), [numbers.length]);
  const flags = (rows, width) => new ort.Tensor("bool", Uint8Array.from(rows.flat(), Number), [rows.length, width]);
  const inputs = {}, first = {};
  let before = 0;
  if (spaces.global_features.length || !spaces.entities.length) {
    inputs.global = floats([global], spaces.global_features.length);
  }
  for (const { name, features: own, shape } of spaces.entities) {
    const rows = features[name] ?? [], cells = shape ? shape[0] * shape[1] : 1;
    const sizes = shape ? [rows.length / cells, cells, own.length] : [rows.length, own.length];
    inputs[`${name}/features`] = new ort.Tensor("float32", Float32Array.from(rows.flat()), sizes);
    inputs[`${name}/lengths`] = whole([rows.length]);
    first[name] = before; // entities are numbered in the order of their types
    before += rows.length;
  }
  const numbered = (entities) => entities.map(([type, place]) => first[type] + place);
  for (const { kind, name, labels } of spaces.actions) {
    const { actors = [], actees = [], mask } = actions[name] ?? {};
    const isGlobal = kind.startsWith("global");
    if (!isGlobal) {
      inputs[`${name}/actors`] = whole(numbered(actors));
      inputs[`${name}/lengths`] = whole([actors.length]);
    }
    if (kind === "select_entity") {
      inputs[`${name}/actees`] = whole(numbered(actees));
      inputs[`${name}/actee_lengths`] = whole([actees.length]);
    }
    if (!kind.endsWith("continuous")) {
      const [lines, width] = [isGlobal ? 1 : actors.length, labels?.length ?? actees.length];
      inputs[`${name}/mask`] = flags(mask ?? Array.from({ length: lines }, () => Array(width).fill(true)), width);
    }
  }
  return inputs;
}
