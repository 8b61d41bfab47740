"""``peer.py``: executes the statements and expressions that it reads, one in JSON per line, and answers each with the ``repr`` of its
value, or the class of its exception and its text."""

import json
import sys

import tombolo

names = {"tombolo": tombolo, "domain": tombolo.attach()}
for line in sys.stdin:
    code = json.loads(line)
    try:
        try:
            compiled = compile(code, "peer", "eval")
        except SyntaxError:
            exec(compile(code, "peer", "exec"), names)
            answer = ["value", "None"]
        else:
            answer = ["value", repr(eval(compiled, names))]
    except Exception as error:  # noqa: BLE001 - sent to the caller
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer), flush=True)
