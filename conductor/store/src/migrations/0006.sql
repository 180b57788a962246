-- One life of the conductor's process: a row that another one has taken over
-- is no longer its own.
ALTER TABLE conductors ADD COLUMN instance TEXT NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
-- Where it takes calls; none: it is called in its own process alone.
ALTER TABLE conductors ADD COLUMN rpc_url TEXT;
-- Implementations by hardware type and kind of interface, the default first.
ALTER TABLE conductors ADD COLUMN interfaces TEXT NOT NULL DEFAULT '{}';
-- Settings of nodes with their descriptions by hardware type.
ALTER TABLE conductors ADD COLUMN properties TEXT NOT NULL DEFAULT '{}';
-- The conductor that last took charge of a node in use.
ALTER TABLE nodes ADD COLUMN conductor_affinity TEXT;
