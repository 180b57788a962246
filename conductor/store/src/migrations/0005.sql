CREATE TABLE allocations (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    name TEXT UNIQUE,
    -- The only tie between the two: a node's allocation is read from here.
    node_uuid TEXT UNIQUE REFERENCES nodes (uuid) ON DELETE CASCADE,
    state TEXT NOT NULL,
    last_error TEXT,
    resource_class TEXT,
    traits TEXT NOT NULL,
    candidate_nodes TEXT NOT NULL,
    extra TEXT NOT NULL,
    owner TEXT,
    conductor TEXT,
    updated_at BIGINT
);
CREATE INDEX allocations_state ON allocations (state);
CREATE INDEX nodes_resource_class ON nodes (resource_class);

CREATE TABLE node_inventory (
    node_uuid TEXT NOT NULL PRIMARY KEY REFERENCES nodes (uuid) ON DELETE CASCADE,
    inventory TEXT NOT NULL,
    plugin_data TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE inspection_rules (
    id {ID},
    uuid TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    description TEXT,
    priority BIGINT NOT NULL,
    phase TEXT NOT NULL,
    sensitive BIGINT NOT NULL,
    conditions TEXT NOT NULL,
    actions TEXT NOT NULL,
    updated_at BIGINT
);
