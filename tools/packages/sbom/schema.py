# Checks bills of materials against the schema of CycloneDX 1.6: schema.py DIR FILE…, where DIR has the
# schema and those that it refers to.
import json
import sys

import jsonschema

schemas = {}
for name in ("bom-1.6", "spdx", "jsf-0.82"):
    with open(f"{sys.argv[1]}/{name}.SNAPSHOT.schema.json") as file:
        schemas[name] = json.load(file)

main = schemas["bom-1.6"]
store = {schema["$id"]: schema for schema in schemas.values()}
validator = jsonschema.Draft7Validator(main, resolver=jsonschema.RefResolver.from_schema(main, store=store))
for path in sys.argv[2:]:
    with open(path) as file:
        bill = json.load(file)
    validator.validate(bill)
    if len(bill["components"]) < 10:
        sys.exit(f"{path}: only {len(bill['components'])} components")
