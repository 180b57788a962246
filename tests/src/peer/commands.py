"""`openstack baremetal` commands, all in one process.

Each line of standard input is a JSON list: the words after `openstack`. The
answer is a line with a JSON object: `code`, `out` and `err`. The first line of
output is a list of all `baremetal` commands that there are.

This file must not be called `openstack.py`: it would be imported as that.
"""

import io
import json
import sys


class Spool(io.TextIOBase):
    """A stream whose text is taken after each command."""

    def __init__(self):
        self.spool = io.StringIO()

    def write(self, text):
        return self.spool.write(text)

    def take(self):
        text = self.spool.getvalue()
        self.spool = io.StringIO()
        return text


answers = sys.stdout
out, err = Spool(), Spool()
# Before the first import: the client keeps the streams that it finds.
sys.stdout, sys.stderr = out, err

from openstackclient.shell import OpenStackShell  # noqa: E402


def answer(value):
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def main():
    shell = OpenStackShell()
    shell.options, _ = shell.parser.parse_known_args([])
    shell.configure_logging()
    shell.initialize_app([])
    shell.stdout, shell.stderr = out, err
    names = sorted(name for name, _ in shell.command_manager)
    answer([name for name in names if name.startswith("baremetal ")])
    for line in sys.stdin:
        try:
            code = shell.run_subcommand(json.loads(line))
        except SystemExit as end:
            code = end.code
        except Exception as error:
            code = 1
            err.write(f"{type(error).__name__}: {error}")
        answer({"code": code, "out": out.take(), "err": err.take()})


try:
    main()
except BaseException:
    sys.stderr = sys.__stderr__
    raise
