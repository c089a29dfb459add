//! Every record has a description, there are as many records as task elements, and a plan that is
//! cut inside a task is never read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::tags;
use patterns::answer::tasks;

fuzz_target!(|text: &str| {
    if let Ok(records) = tasks(text) {
        assert_eq!(records.len(), tags(text, "task").expect("the list of tasks").len());
        for record in &records {
            assert!(!record.description.trim().is_empty());
            assert!(record.id.as_deref() != Some("") && record.kind.as_deref() != Some(""));
            assert!(record.needs.iter().all(|id| !id.trim().is_empty()));
        }
    }
});
