//! State machine, steps, drivers, boot artefacts.
