"""Runs the image path of ironic-python-agent once and prints what it took.

    real_agent.py URL FORMAT ALGORITHM DIGEST DEVICE

Called are the functions that move the image, with the arguments that the
agent itself gives them: for raw its streaming, else its download into TMPDIR,
its look at the format and its conversion. Starting Python, wiping the disk
before and waiting for udev after are left out, in the agent's favour. A flush
is added, because ours flushes too. Prints one JSON object.
"""

import json
import os
import resource
import sys
import time

from ironic_python_agent import config  # noqa: F401 (registers the options)
from ironic_python_agent import disk_utils
from ironic_python_agent.extensions import standby


def processor_seconds():
    """Time of this process and of those it has waited for."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def stream(image, device):
    extension = standby.StandbyExtension()
    extension.partition_uuids = {}
    extension._stream_raw_image_onto_device(image, device)


def download_and_convert(image, device):
    standby._download_image(image)
    path = standby._image_location(image)
    found, _size = disk_utils.get_and_validate_image_format(
        path, image["disk_format"])
    disk_utils.populate_image(
        path, device, is_raw=False, source_format=found,
        out_format="host_device", cache="directsync", out_of_order=True)


def main():
    url, disk_format, algorithm, digest, device = sys.argv[1:]
    config.CONF([], project="ironic-python-agent", default_config_files=[])
    image = {
        "id": "wrought-bench-image",
        "urls": [url],
        "disk_format": disk_format,
        "os_hash_algo": algorithm,
        "os_hash_value": digest,
    }
    started, used = time.monotonic(), processor_seconds()
    if disk_format == "raw":
        stream(image, device)
    else:
        download_and_convert(image, device)
    disk = os.open(device, os.O_RDWR)
    os.fsync(disk)
    os.close(disk)
    print(json.dumps({
        "seconds": time.monotonic() - started,
        "cpu_seconds": processor_seconds() - used,
    }))


if __name__ == "__main__":
    main()
