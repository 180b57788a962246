"""The state machine of the installed `ironic`, as one JSON object.

`edges` are [state, event, state]; `states` has for each state whether it is
stable and the target of a node in it.
"""

import json

from ironic.common.state_machine import machine

print(
    json.dumps(
        {
            "edges": sorted(machine),
            "states": {
                name: {
                    "stable": bool(machine.is_stable(name)),
                    "target": machine._states[name].get("target"),
                }
                for name in machine.states
            },
        }
    )
)
