CREATE TABLE chassis (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    description TEXT,
    extra TEXT NOT NULL,
    updated_at BIGINT
);
CREATE INDEX nodes_chassis ON nodes (chassis_uuid);

CREATE TABLE portgroups (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    name TEXT UNIQUE,
    address TEXT UNIQUE,
    mode TEXT NOT NULL,
    properties TEXT NOT NULL,
    extra TEXT NOT NULL,
    internal_info TEXT NOT NULL,
    standalone_ports_supported BIGINT NOT NULL,
    physical_network TEXT,
    category TEXT,
    dynamic_portgroup BIGINT NOT NULL,
    updated_at BIGINT
);
CREATE INDEX portgroups_node ON portgroups (node_uuid);

ALTER TABLE ports ADD COLUMN portgroup_uuid TEXT REFERENCES portgroups (uuid);
ALTER TABLE ports ADD COLUMN available_for_dynamic_portgroup BIGINT NOT NULL DEFAULT 1;
CREATE INDEX ports_portgroup ON ports (portgroup_uuid);

CREATE TABLE volume_connectors (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    type TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    extra TEXT NOT NULL,
    updated_at BIGINT,
    UNIQUE (type, connector_id)
);
CREATE INDEX volume_connectors_node ON volume_connectors (node_uuid);

CREATE TABLE volume_targets (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    volume_type TEXT NOT NULL,
    volume_id TEXT NOT NULL,
    boot_index BIGINT NOT NULL,
    properties TEXT NOT NULL,
    extra TEXT NOT NULL,
    updated_at BIGINT,
    UNIQUE (node_uuid, boot_index)
);

CREATE TABLE deploy_templates (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    steps TEXT NOT NULL,
    extra TEXT NOT NULL,
    updated_at BIGINT
);

CREATE TABLE runbooks (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    steps TEXT NOT NULL,
    disable_ramdisk BIGINT NOT NULL,
    public BIGINT NOT NULL,
    owner TEXT,
    description TEXT,
    traits TEXT NOT NULL,
    extra TEXT NOT NULL,
    updated_at BIGINT
);
