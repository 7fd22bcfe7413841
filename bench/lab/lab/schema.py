"""Checks a value against the part of JSON Schema that the lab's schema uses. A schema with any other
keyword is refused, so that nothing in it goes unchecked."""
import re

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
_NOTES = {"$schema", "title", "description", "$defs"}


def _is(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, _TYPES[name])


def _object(value, schema, where, root):
    for name in schema.get("required", []):
        if name not in value:
            yield f"{where}: lacks {name!r}"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, inner in value.items():
        if name in known:
            yield from _errors(inner, known[name], f"{where}.{name}", root)
        elif others is False:
            yield f"{where}: unknown key {name!r}"
        elif isinstance(others, dict):
            yield from _errors(inner, others, f"{where}.{name}", root)


def _array(value, schema, where, root):
    if len(value) < schema.get("minItems", 0):
        yield f"{where}: fewer than {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{where}: more than {schema['maxItems']} items"
    for i, item in enumerate(value):
        yield from _errors(item, schema.get("items", {}), f"{where}[{i}]", root)


def _scalar(value, schema, where):
    if "const" in schema and value != schema["const"]:
        yield f"{where}: must be {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield f"{where}: shorter than {schema['minLength']} characters"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{where}: {value!r} does not match {schema['pattern']}"
    elif _is(value, "number"):
        if value < schema.get("minimum", value):
            yield f"{where}: {value} is below {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"{where}: {value} is above {schema['maximum']}"


_HANDLED = {"type", "required", "properties", "additionalProperties", "items", "minItems", "maxItems",
            "const", "enum", "minLength", "pattern", "minimum", "maximum", "$ref"}


def _errors(value, schema, where, root):
    unknown = set(schema) - _HANDLED - _NOTES
    if unknown:
        raise ValueError(f"the schema at {where} uses {sorted(unknown)}, which is not checked here")
    if "$ref" in schema:
        yield from _errors(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], where, root)
        return
    wanted = schema.get("type")
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(_is(value, name) for name in wanted):
        yield f"{where}: must be of type {' or '.join(wanted)}"
        return
    yield from _scalar(value, schema, where)
    if isinstance(value, dict):
        yield from _object(value, schema, where, root)
    elif isinstance(value, list):
        yield from _array(value, schema, where, root)


def errors(value, schema):
    """What is wrong with `value`; an empty list where nothing is."""
    return list(_errors(value, schema, "protocol", schema))
