CREATE TABLE nodes (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    name TEXT UNIQUE,
    driver TEXT NOT NULL,
    driver_info TEXT NOT NULL,
    driver_internal_info TEXT NOT NULL,
    properties TEXT NOT NULL,
    instance_info TEXT NOT NULL,
    instance_uuid TEXT UNIQUE,
    instance_name TEXT,
    extra TEXT NOT NULL,
    clean_step TEXT NOT NULL,
    deploy_step TEXT NOT NULL,
    service_step TEXT NOT NULL,
    raid_config TEXT NOT NULL,
    target_raid_config TEXT NOT NULL,
    conductor_group TEXT NOT NULL,
    power_state TEXT,
    target_power_state TEXT,
    provision_state TEXT NOT NULL,
    target_provision_state TEXT,
    provision_updated_at BIGINT,
    maintenance BIGINT NOT NULL,
    maintenance_reason TEXT,
    fault TEXT,
    last_error TEXT,
    console_enabled BIGINT NOT NULL,
    resource_class TEXT,
    inspection_started_at BIGINT,
    inspection_finished_at BIGINT,
    automated_clean BIGINT,
    protected BIGINT NOT NULL,
    protected_reason TEXT,
    owner TEXT,
    lessee TEXT,
    description TEXT,
    retired BIGINT NOT NULL,
    retired_reason TEXT,
    network_data TEXT NOT NULL,
    boot_mode TEXT,
    secure_boot BIGINT,
    shard TEXT,
    parent_node TEXT,
    disable_power_off BIGINT NOT NULL,
    chassis_uuid TEXT,
    traits TEXT NOT NULL,
    bios_interface TEXT,
    boot_interface TEXT,
    console_interface TEXT,
    deploy_interface TEXT,
    firmware_interface TEXT,
    inspect_interface TEXT,
    management_interface TEXT,
    network_interface TEXT,
    power_interface TEXT,
    raid_interface TEXT,
    rescue_interface TEXT,
    storage_interface TEXT,
    vendor_interface TEXT,
    updated_at BIGINT,
    reservation TEXT,
    lock_epoch BIGINT NOT NULL DEFAULT 0,
    lock_expires_at BIGINT,
    agent_last_heartbeat BIGINT
);
CREATE INDEX nodes_provision_state ON nodes (provision_state);
CREATE INDEX nodes_parent_node ON nodes (parent_node);
CREATE INDEX nodes_reservation ON nodes (reservation);

CREATE TABLE ports (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    address TEXT NOT NULL UNIQUE,
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    name TEXT UNIQUE,
    description TEXT,
    extra TEXT NOT NULL,
    internal_info TEXT NOT NULL,
    local_link_connection TEXT NOT NULL,
    pxe_enabled BIGINT NOT NULL,
    physical_network TEXT,
    is_smartnic BIGINT NOT NULL,
    vendor TEXT,
    category TEXT,
    updated_at BIGINT
);
CREATE INDEX ports_node ON ports (node_uuid);

CREATE TABLE node_journal (
    id {ID},
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    step_index BIGINT NOT NULL,
    step TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    phase TEXT NOT NULL,
    detail TEXT,
    at BIGINT NOT NULL
);
CREATE INDEX node_journal_node ON node_journal (node_uuid, id);

CREATE TABLE node_history (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    severity TEXT,
    event_type TEXT,
    event TEXT NOT NULL,
    user_id TEXT,
    conductor TEXT,
    created_at BIGINT NOT NULL,
    state TEXT,
    target_provision_state TEXT
);
CREATE INDEX node_history_node ON node_history (node_uuid, id);

CREATE TABLE conductors (
    id {ID},
    hostname TEXT NOT NULL UNIQUE,
    conductor_group TEXT NOT NULL,
    drivers TEXT NOT NULL,
    online BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
