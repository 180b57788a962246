"""openstacksdk's baremetal proxy against one endpoint: what a program does."""

import sys
import time

import openstack
from openstack import exceptions


def eventually(ask, wanted, seconds=60):
    """Asks until the answer is the wanted one."""
    until = time.monotonic() + seconds
    while (found := ask()) != wanted:
        if time.monotonic() > until:
            raise AssertionError(f"{found!r} instead of {wanted!r}")
        time.sleep(0.2)


def refused(error, call, *args, **kwargs):
    """The call must fail in this way."""
    try:
        call(*args, **kwargs)
    except error:
        return
    raise AssertionError(f"{call.__name__}{args} did not fail with {error.__name__}")


def said(step):
    print(f"ok {step}", flush=True)


def drivers(bm):
    names = [driver.name for driver in bm.drivers(details=True)]
    assert "fake-hardware" in names, names
    driver = bm.get_driver("fake-hardware")
    assert driver.default_power_interface == "fake", driver
    assert bm.list_driver_vendor_passthru("fake-hardware") == {}
    hosts = [conductor.hostname for conductor in bm.conductors()]
    assert "fake-hardware" in bm.get_conductor(hosts[0]).drivers, hosts
    said("drivers and conductors")


def chassis(bm):
    made = bm.create_chassis(description="rack", extra={"row": 1})
    assert [c.id for c in bm.chassis()] == [made.id]
    bm.update_chassis(made, description="shelf")
    patched = bm.patch_chassis(made, [{"op": "add", "path": "/extra/a", "value": "b"}])
    assert (patched.description, patched.extra) == ("shelf", {"row": 1, "a": "b"}), patched
    assert bm.find_chassis(made.id).id == made.id
    bm.delete_chassis(made)
    refused(exceptions.NotFoundException, bm.get_chassis, made.id)
    said("chassis")


def nodes(bm):
    node = bm.create_node(
        driver="fake-hardware",
        name="sdk-1",
        resource_class="sdk",
        properties={"cpus": 4},
        driver_info={"password": "hidden"},
        provision_state="enroll",
    )
    assert node.provision_state == "enroll", node
    assert node.driver_info == {"password": "******"}, node
    assert bm.find_node("sdk-1").id == node.id
    assert [n.id for n in bm.nodes(details=True, driver="fake-hardware")] == [node.id]
    assert [n.id for n in bm.nodes(provision_state="manageable")] == []
    node = bm.update_node(node, extra={"a": 1}, description="text")
    assert (node.extra, node.description) == ({"a": 1}, "text"), node
    node = bm.patch_node(node, [{"op": "replace", "path": "/extra/a", "value": 2}])
    assert node.extra == {"a": 2}, node
    assert bm.validate_node(node, required=["power"])["power"].result is True
    bm.set_node_maintenance(node, reason="broken")
    assert bm.get_node(node).maintenance_reason == "broken"
    bm.unset_node_maintenance(node)
    assert bm.get_node(node).is_maintenance is False
    bm.add_node_trait(node, "CUSTOM_A")
    bm.set_node_traits(node, ["CUSTOM_B", "CUSTOM_C"])
    bm.remove_node_trait(node, "CUSTOM_C")
    assert bm.get_node(node).traits == ["CUSTOM_B"]
    child = bm.create_node(driver="fake-hardware", name="sdk-child", parent_node=node.id)
    assert [n.id for n in bm.nodes(parent_node=node.id)] == [child.id]
    bm.delete_node(child)
    refused(exceptions.NotFoundException, bm.get_node, child.id)
    refused(exceptions.BadRequestException, bm.create_node, driver="nothing")
    said("nodes")
    return node


def networks(bm, node):
    group = bm.create_port_group(node_id=node.id, name="sdk-pg", address="52:54:00:ab:00:01")
    assert [g.id for g in bm.port_groups(node=node.id)] == [group.id]
    group = bm.update_port_group(group, extra={"a": 1})
    assert bm.get_port_group(group.id).extra == {"a": 1}
    bm.patch_port_group(group, [{"op": "add", "path": "/mode", "value": "802.3ad"}])
    assert bm.find_port_group("sdk-pg").mode == "802.3ad"
    port = bm.create_port(
        node_id=node.id,
        address="52:54:00:AB:00:02",
        port_group_id=group.id,
        local_link_connection={"switch_id": "52:54:00:ab:ff:01", "port_id": "1"},
    )
    assert port.address == "52:54:00:ab:00:02", port
    assert [p.id for p in bm.ports(details=True, node=node.id)] == [port.id]
    assert [p.id for p in bm.ports(address="52:54:00:ab:00:02")] == [port.id]
    port = bm.update_port(port, extra={"b": 1})
    port = bm.patch_port(port, [{"op": "replace", "path": "/pxe_enabled", "value": False}])
    assert (port.extra, port.is_pxe_enabled) == ({"b": 1}, False), port
    refused(exceptions.BadRequestException, bm.delete_port_group, group)
    bm.delete_port(port)
    bm.delete_port_group(group)
    assert list(bm.ports()) == [] and list(bm.port_groups()) == []
    said("ports and port groups")


def templates(bm):
    step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}, "priority": 150}
    made = bm.create_deploy_template(name="CUSTOM_SDK", steps=[step])
    assert [t.id for t in bm.deploy_templates()] == [made.id]
    bm.update_deploy_template(made, extra={"a": 1})
    bm.patch_deploy_template(made, [{"op": "replace", "path": "/name", "value": "CUSTOM_SDL"}])
    got = bm.get_deploy_template("CUSTOM_SDL")
    assert (got.extra, got.steps) == ({"a": 1}, [step]), got
    bm.delete_deploy_template(made)
    assert list(bm.deploy_templates()) == []
    said("deploy templates")
    step = {"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1}
    made = bm.create_runbook(name="CUSTOM_SDK_RUNBOOK", steps=[step])
    assert [r.id for r in bm.runbooks(details=True)] == [made.id]
    bm.update_runbook(made, extra={"a": 1})
    assert bm.get_runbook("CUSTOM_SDK_RUNBOOK").extra == {"a": 1}
    bm.patch_runbook(made, [{"op": "remove", "path": "/extra/a"}])
    assert bm.get_runbook(made.id).extra == {}
    bm.add_runbook_trait(made, "CUSTOM_A")
    bm.set_runbook_traits(made, ["CUSTOM_B", "CUSTOM_C"])
    bm.remove_runbook_trait(made, "CUSTOM_C")
    assert bm.get_runbook(made.id).traits == ["CUSTOM_B"]
    bm.delete_runbook(made)
    assert list(bm.runbooks()) == []
    said("runbooks")
    rule = bm.create_inspection_rule(
        description="rule",
        priority=5,
        conditions=[{"op": "is-true", "args": {"value": True}}],
        actions=[{"op": "set-attribute", "args": {"path": "/extra/x", "value": "y"}}],
    )
    assert [r.id for r in bm.inspection_rules()] == [rule.id]
    bm.update_inspection_rule(rule, priority=7)
    assert bm.get_inspection_rule(rule.id).priority == 7
    bm.patch_inspection_rule(rule, [{"op": "replace", "path": "/description", "value": "other"}])
    assert bm.get_inspection_rule(rule.id).description == "other"
    bm.delete_inspection_rule(rule)
    assert list(bm.inspection_rules()) == []
    said("inspection rules")


def operations(bm, node):
    node = bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    assert node.provision_state == "manageable", node
    bm.set_node_power_state(node, "power on", wait=True, timeout=60)
    assert bm.get_node(node).power_state == "power on"
    bm.set_node_power_state(node, "rebooting")
    eventually(lambda: bm.get_node(node).target_power_state, None)
    bm.set_node_power_state(node, "power off", wait=True, timeout=60)
    bm.wait_for_node_power_state(node, "power off", timeout=60)
    said("power")

    connector = bm.create_volume_connector(node_id=node.id, type="iqn", connector_id="iqn.test:a")
    target = bm.create_volume_target(node_id=node.id, volume_type="iscsi", boot_index=0, volume_id="v")
    assert [c.id for c in bm.volume_connectors(node=node.id)] == [connector.id]
    assert [t.id for t in bm.volume_targets(node=node.id)] == [target.id]
    bm.update_volume_connector(connector, connector_id="iqn.test:b")
    bm.patch_volume_target(target, [{"op": "replace", "path": "/volume_id", "value": "w"}])
    assert bm.get_volume_connector(connector.id).connector_id == "iqn.test:b"
    assert bm.find_volume_target(target.id).volume_id == "w"
    bm.delete_volume_target(target)
    bm.delete_volume_connector(connector)
    said("volumes")

    bm.set_node_boot_device(node, "pxe", persistent=True)
    assert bm.get_node_boot_device(node)["boot_device"] == "pxe"
    assert "pxe" in bm.get_node_supported_boot_devices(node)["supported_boot_devices"]
    bm.set_node_boot_mode(node, "uefi")
    bm.set_node_secure_boot(node, False)
    refused(exceptions.BadRequestException, bm.inject_nmi_to_node, node)
    assert bm.get_node_console(node)["console_enabled"] is False
    bm.enable_node_console(node)
    eventually(lambda: bm.get_node_console(node)["console_enabled"], True)
    bm.disable_node_console(node)
    eventually(lambda: bm.get_node_console(node)["console_enabled"], False)
    assert "second_method" in bm.list_node_vendor_passthru(node)
    bm.call_node_vendor_passthru(node, "POST", "second_method", {"bar": "meow"})
    assert bm.list_node_firmware(node) in ([], {"firmware": []})
    refused(exceptions.NotFoundException, bm.get_node_inventory, node)
    bm.attach_vmedia_to_node(node, "cdrom", "http://127.0.0.1/cd.iso")
    bm.detach_vmedia_from_node(node)
    bm.attach_vif_to_node(node, "vif-1")
    assert bm.list_node_vifs(node) == []
    assert bm.detach_vif_from_node(node, "vif-1") in (True, False)
    said("management")

    node = bm.set_node_provision_state(node, "provide", wait=True, timeout=60)
    made = bm.create_allocation(resource_class="sdk", name="sdk-a", traits=["CUSTOM_B"])
    made = bm.wait_for_allocation(made, timeout=60)
    assert (made.state, made.node_id) == ("active", node.id), made
    assert [a.id for a in bm.allocations(resource_class="sdk")] == [made.id]
    made = bm.update_allocation(made, extra={"a": 1})
    made = bm.patch_allocation(made, [{"op": "replace", "path": "/name", "value": "sdk-b"}])
    assert bm.get_allocation("sdk-b").extra == {"a": 1}
    assert bm.get_node(node).instance_id == made.id
    bm.delete_allocation(made)
    assert bm.get_node(node).instance_id is None
    bad = bm.create_allocation(resource_class="nothing")
    refused(exceptions.ResourceFailure, bm.wait_for_allocation, bad, timeout=60)
    bm.delete_allocation(bad)
    said("allocations")

    node = bm.update_node(node, instance_info={"image_source": "http://127.0.0.1/i", "root_gb": 10})
    bm.set_node_provision_state(node, "active", config_drive={"meta_data": {"name": "sdk"}})
    node = bm.wait_for_nodes_provision_state([node], "active", timeout=60)[0]
    bm.set_node_provision_state(node, "rebuild", wait=True, timeout=60)
    bm.set_node_provision_state(node, "rescue", rescue_password="secret", wait=True, timeout=60)
    bm.set_node_provision_state(node, "unrescue")
    bm.wait_for_nodes_provision_state([node], "active", timeout=60)
    refused(exceptions.BadRequestException, bm.set_node_provision_state, node, "provide")
    node = bm.set_node_provision_state(node, "deleted", wait=True, timeout=60)
    assert bm.get_node(node).provision_state == "available"
    bm.wait_for_node_reservation(node, timeout=60)
    bm.delete_node(node)
    refused(exceptions.NotFoundException, bm.get_node, node.id)
    said("deployment")


def main():
    connection = openstack.connect(
        auth_type="none", endpoint=sys.argv[1], baremetal_endpoint_override=sys.argv[1]
    )
    bm = connection.baremetal
    drivers(bm)
    chassis(bm)
    node = nodes(bm)
    networks(bm, node)
    templates(bm)
    operations(bm, node)


if __name__ == "__main__":
    main()
