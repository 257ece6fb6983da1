// The check of model.json against model.schema.json: the same schema, and the same keywords of JSON Schema, as run.py has.

const KINDS = { object: (value) => value !== null && typeof value === "object" && !Array.isArray(value), array: Array.isArray,
  string: (value) => typeof value === "string", number: Number.isFinite, integer: Number.isInteger };

/** Sentences about what of a value does not fit a schema; `name` is what they call the value. */
export function* mistakes(value, schema, name) {
  if (schema.anyOf) {
    const found = schema.anyOf.map((each) => first(mistakes(value, each, name), 20));
    yield* found.reduce((best, each) => (each.length < best.length ? each : best));
  } else if (schema.enum) {
    if (!schema.enum.includes(value)) yield `${name} is ${shown(value)}`;
  } else if (!KINDS[schema.type](value)) {
    yield `${name}=${shown(value)} is not of the type ${schema.type}`;
  } else if (schema.type === "string") {
    const { minLength = 0, maxLength = Infinity } = schema, { length } = [...value];
    if (length < minLength || length > maxLength || !new RegExp(schema.pattern, "u").test(value)) {
      yield `${name}=${shown(value)} is not a text that may stand there`;
    }
  } else if (schema.type === "array") {
    const { minItems, maxItems, uniqueItems, items } = schema;
    if (value.length < minItems || value.length > maxItems) yield `${name} has ${value.length} entries`;
    else if (uniqueItems && new Set(value.map((each) => JSON.stringify(each))).size < value.length) yield `${name} has an entry twice`;
    else for (const [place, each] of value.entries()) yield* mistakes(each, items, `${name}[${place}]`);
  } else if (schema.type === "object") {
    const { required = [], properties = {}, propertyNames, additionalProperties, maxProperties = Infinity } = schema;
    for (const key of required) if (!Object.hasOwn(value, key)) yield `${name} has no ${key}`;
    if (Object.keys(value).length > maxProperties) yield `${name} has ${Object.keys(value).length} entries`;
    for (const [key, each] of Object.entries(value)) {
      if (propertyNames) yield* mistakes(key, propertyNames, `${name}: name`);
      const inner = Object.hasOwn(properties, key) ? properties[key] : additionalProperties;
      if (inner) yield* mistakes(each, inner, `${name}: ${key}`);
      else yield `${name}: ${shown(key)} is unknown`;
    }
  } else if (value < schema.minimum || value > schema.maximum) {
    yield `${name}=${shown(value)} is not within ${schema.minimum} .. ${schema.maximum}`;
  }
}

function shown(value) {
  return String(JSON.stringify(value)).slice(0, 60);
}

function first(values, most) {
  const found = [];
  for (const value of values) if (found.push(value) === most) break;
  return found;
}
