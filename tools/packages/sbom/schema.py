# Checks a bill of materials against the schema of CycloneDX 1.6, and prints what is in it, a
# NAME@VERSION a line: schema.py DIR FILE, where DIR has the schema and those that it refers to.
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
with open(sys.argv[2]) as file:
    bill = json.load(file)
validator.validate(bill)
for part in bill["components"]:
    print(f"{part['name']}@{part['version']}")
