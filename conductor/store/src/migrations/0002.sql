-- Heartbeats come by the thousand: a row of their own, not one column of a
-- node's long one.
CREATE TABLE agent_heartbeats (
    node_uuid TEXT NOT NULL PRIMARY KEY REFERENCES nodes (uuid) ON DELETE CASCADE,
    at BIGINT NOT NULL
);
INSERT INTO agent_heartbeats (node_uuid, at)
    SELECT uuid, agent_last_heartbeat FROM nodes WHERE agent_last_heartbeat IS NOT NULL;
ALTER TABLE nodes DROP COLUMN agent_last_heartbeat;
