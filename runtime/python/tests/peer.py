"""``peer.py``: another program, which does what it reads line by line, each a statement or an expression in JSON, and answers with
what came of it: ``repr`` of a value, or the class of an exception and its text."""

import json
import sys

import tombolo

known = {"tombolo": tombolo, "domain": tombolo.attach()}
for line in sys.stdin:
    code = json.loads(line)
    try:
        try:
            compiled = compile(code, "peer", "eval")
        except SyntaxError:
            exec(compile(code, "peer", "exec"), known)
            answer = ["value", "None"]
        else:
            answer = ["value", repr(eval(compiled, known))]
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer), flush=True)
