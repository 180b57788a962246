"""A hardware manager that shows a real ironic-python-agent one disk, one NIC
and two steps, so that it touches nothing else of the host that it runs on."""

import os
import time

from ironic_python_agent import hardware

DISK = os.environ["WROUGHT_DISK"]
MAC = os.environ["WROUGHT_MAC"]
STEPS = os.environ["WROUGHT_STEPS"]


class TestManager(hardware.GenericHardwareManager):
    HARDWARE_MANAGER_NAME = "WroughtTestManager"
    HARDWARE_MANAGER_VERSION = "1"

    def evaluate_hardware_support(self):
        return hardware.HardwareSupport.SERVICE_PROVIDER

    def initialize(self):
        pass

    def list_network_interfaces(self):
        return [hardware.NetworkInterface(
            "eth0", MAC, ipv4_address="127.0.0.1")]

    def list_block_devices(self, *_args, **_kwargs):
        disk = os.open(DISK, os.O_RDONLY)
        size = os.lseek(disk, 0, os.SEEK_END)
        os.close(disk)
        return [hardware.BlockDevice(
            DISK, "loop", size, False, serial="wrought")]

    def list_block_devices_check_skip_list(self, *_args, **_kwargs):
        return self.list_block_devices()

    def get_os_install_device(self, permit_refresh=False):
        return DISK

    def list_hardware_info(self):
        return {"interfaces": self.list_network_interfaces(),
                "disks": self.list_block_devices()}

    def get_clean_steps(self, node, ports):
        # Of the same name as a step of the generic manager: off.
        return [step("erase_devices_metadata", 99),
                step("take_a_while", 50),
                step("erase_devices", 0)]

    def get_deploy_steps(self, node, ports):
        return [step("write_image", 0)]

    def get_service_steps(self, node, ports):
        return []

    def erase_devices_metadata(self, node, ports):
        note("erase_devices_metadata")
        return super().erase_devices_metadata(node, ports)

    def take_a_while(self, node, ports):
        note("take_a_while begins")
        time.sleep(5)
        note("take_a_while ends")

    def write_image(self, node, ports, image_info, configdrive=None):
        note("write_image")
        return super().write_image(node, ports, image_info, configdrive)


def step(name, priority):
    return {"step": name, "priority": priority, "interface": "deploy",
            "reboot_requested": False, "abortable": True,
            "repeatable": True}


def note(text):
    with open(STEPS, "a") as steps:
        steps.write(text + "\n")
