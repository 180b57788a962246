//! Tests of the whole store.

mod cut;
