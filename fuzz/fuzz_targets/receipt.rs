//! Calls the body that the property tests call too; the property itself is written there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopexec_core::fuzz::fuzz_receipt(data));
