//! What cannot be made says so, and leaves nothing that looks whole.

use netloom_image::{Error, Recipe, build};

#[test]
fn a_package_that_nobody_has_is_named() {
    netloom_kit::needs!("apt-get", "dpkg-deb");
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe { more: vec!["netloom-no-such-package".to_owned()], ..Recipe::default() };
    let error = build(folder.path(), &recipe, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Apt { .. }), "{error}");
    assert!(error.to_string().contains("netloom-no-such-package"), "{error}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == ".lock"), "{left:?}");
}

#[test]
fn without_a_network_the_package_that_does_not_come_is_named() {
    netloom_kit::needs!("apt-get", "dpkg-deb");
    netloom_kit::isolated!({
        let folder = tempfile::tempdir().unwrap();
        let error = build(folder.path(), &Recipe::default(), &mut |_| ()).unwrap_err().to_string();
        if error.starts_with("packages: resolve") {
            netloom_kit::lacks!("apt-lists", "{error}");
        }
        assert!(error.starts_with("packages: download") && error.contains(".deb"), "{error}");
        assert!(!folder.path().join("image.json").exists());
    });
}

#[test]
fn an_option_is_no_package() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe { kernel: "--allow-unauthenticated".to_owned(), ..Recipe::default() };
    let error = build(folder.path(), &recipe, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Name(_)), "{error}");
}
