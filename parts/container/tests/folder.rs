//! Where images are kept.

use netloom_container::Store;

#[test]
fn a_store_that_others_can_exchange_is_not_used() {
    let base = tempfile::tempdir().unwrap();
    let above = base.path().join("above");
    std::fs::create_dir(&above).unwrap();
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&above, mode).unwrap();
    };
    let open = || Store::open(&above.join("images")).map_err(|e| netloom_sys::describe(&e));
    // Homes are often like this, where each user has a group.
    mode(0o775);
    open().unwrap();
    mode(0o777);
    assert!(open().unwrap_err().contains("others may write there (mode 0777)"));
    mode(0o755);
    if netloom_kit::is_root() {
        std::os::unix::fs::chown(&above, Some(1), None).unwrap();
        let refused = open().unwrap_err();
        assert!(refused.contains("it is a folder of user 1, who can exchange"), "{refused}");
    }
}
