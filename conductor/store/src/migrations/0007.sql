-- Nodes that are in their transitional state already and wait for a free place
-- among the operations of their kind. First come, first served.
CREATE TABLE provision_queue (
    node_uuid TEXT NOT NULL PRIMARY KEY REFERENCES nodes (uuid) ON DELETE CASCADE,
    -- `deploy`, `clean` or `inspect`.
    lane TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX provision_queue_order ON provision_queue (lane, at, node_uuid);

-- When the power of a machine was last compared with its record: short rows,
-- written many at once, not one column of a node's long one.
CREATE TABLE power_syncs (
    node_uuid TEXT NOT NULL PRIMARY KEY REFERENCES nodes (uuid) ON DELETE CASCADE,
    at BIGINT NOT NULL
);
