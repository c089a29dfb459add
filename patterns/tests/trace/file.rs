//! The file of a trace: whose it is, who may read it, and what it replaces.

use std::fs;

use patterns::ErrorKind;
use patterns::trace::{Run, Trace};

#[test]
fn an_earlier_trace_is_replaced_and_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    fs::write(&file, "").unwrap(); // as `mktemp` leaves it
    Trace::create(&file).unwrap().finish().unwrap();
    let first = fs::read_to_string(&file).unwrap();
    fs::write(&file, first.clone() + "{\"t\":1.0,\"event\":\"sent\"}\n".repeat(9).as_str()).unwrap();
    Trace::create(&file).unwrap().finish().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
    assert!(Run::read(&file).unwrap().calls.is_empty());

    for text in ["[flow]\nprompt = \"Write.\"\n", "{\"journal\":\"patterns\",\"version\":1}\n", "\u{0}\u{1}"]
    {
        fs::write(&file, text).unwrap();
        let error = Trace::create(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("is no trace"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn two_runs_do_not_write_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    let trace = Trace::create(&file).unwrap();
    let error = Trace::create(&file).unwrap_err();
    assert!(error.message().contains("another run writes to it"), "{error}");
    drop(trace);
    Trace::create(&file).unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_a_trace() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    for _ in 0..2 {
        Trace::create(&file).unwrap().finish().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // a second trace in a file that everybody may read
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    }
}
