-- What was read from a node's BMC. `body` is the JSON of the part without its
-- times.
CREATE TABLE bios_settings (
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (node_uuid, name)
);
CREATE TABLE firmware_components (
    node_uuid TEXT NOT NULL REFERENCES nodes (uuid) ON DELETE CASCADE,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (node_uuid, name)
);
ALTER TABLE nodes ADD COLUMN health TEXT;
ALTER TABLE node_history ADD COLUMN project TEXT;
-- In microseconds.
ALTER TABLE node_history ADD COLUMN duration BIGINT;
