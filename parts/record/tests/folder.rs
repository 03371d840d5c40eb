//! A recording on disk: what is found in it, how large it grows, and who may write it.

use std::os::unix::fs::MetadataExt;

use super::made::{BEGIN, blocks, everything, folder, found, number, store, udp};

use netloom_record::{
    About, Asked, Error, Folder, LEAST_KEEP, Link, Question, Status, Store, Told, find_links,
};

fn asked(words: &[&str]) -> Asked {
    Asked { words: words.iter().map(|word| (*word).to_owned()).collect(), ..everything() }
}

#[test]
fn what_was_recorded_is_found_in_order_while_it_is_recorded_and_later() {
    let root = tempfile::tempdir().unwrap();
    let (mut store, links) = store(root.path(), 64 << 20);
    for part in 0..20 {
        store.append(&blocks(part * 100..(part + 1) * 100, 3, 50), &links);
        let (all, _) = found(root.path(), &everything());
        assert_eq!(all.len(), (part as usize + 1) * 300);
    }
    let books = store.books();
    assert_eq!((books.stored, books.again, books.dropped.disk), (2000, 4000, 0));
    store.finish();
    drop(store);
    let (all, looked) = found(root.path(), &everything());
    for (at, frame) in (0..).zip(&all) {
        let (which, link) = (at / 3, u8::try_from(at % 3).unwrap());
        assert_eq!(frame.data, udp(which, link, 50));
        assert_eq!(frame.time_ns, BEGIN + u64::from(which) * 1000 + u64::from(link));
        assert_eq!(&*frame.link, ["a--r", "r--b", "b--c"][usize::from(link)]);
        assert_eq!(frame.packet, all[usize::try_from(at - at % 3).unwrap()].packet);
    }
    assert_eq!((all.len(), looked.found, looked.gone), (6000, 6000, 0));
}

#[test]
fn flows_links_times_and_nodes_are_found_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (mut store, links) = store(root.path(), 64 << 20);
    store.append(&blocks(0..5000, 3, 200), &links);
    drop(store);
    let count = |asked: &Asked| found(root.path(), asked).0.len();
    assert_eq!(count(&asked(&["h1", "h2"])), 15000);
    assert_eq!(count(&asked(&["h2", "10.0.0.1", "53/udp"])), 15000);
    assert_eq!(count(&asked(&["h1", "udp/1025"])), 15000);
    assert_eq!(count(&asked(&["53/udp"])), 15000);
    assert_eq!(count(&asked(&["54/udp"])) + count(&asked(&["icmp"])), 0);
    for none in [
        &["h1", "h3"][..],
        &["h3"],
        &["h1", "h2", "54/udp"],
        &["h1", "h2", "53/tcp"],
        &["h1", "icmp"],
    ] {
        let (all, looked) = found(root.path(), &asked(none));
        assert_eq!(all.len(), 0, "{none:?}");
        // The index alone answers where it can.
        assert!(
            none.contains(&"icmp") || none.len() == 2 && none[1] != "h3" || looked.bytes == 0,
            "{none:?}"
        );
    }
    let one = Asked { links: vec!["r--b".to_owned()], ..everything() };
    assert_eq!(count(&one), 5000);
    let part = Asked {
        since_ns: Some(BEGIN + 1_000_000),
        until_ns: Some(BEGIN + 2_000_000),
        ..Asked::default()
    };
    let (all, looked) = found(root.path(), &part);
    let numbers: Vec<u32> = all.iter().map(|frame| number(&frame.data)).collect();
    assert_eq!(numbers, (1000..2000).flat_map(|n| [n; 3]).collect::<Vec<_>>());
    assert!(looked.bytes < 1_500_000, "{looked:?}");
}

#[test]
fn a_question_that_cannot_be_answered_says_what_to_write() {
    let none = std::collections::BTreeMap::from([("h1".to_owned(), vec![])]);
    let refused = |asked: &Asked| match Question::read(asked, &none) {
        Err(Error::Question(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(&Asked::default()).contains("--last 10s"));
    let empty = Asked { since_ns: Some(5), until_ns: Some(5), ..Asked::default() };
    assert!(refused(&empty).contains("exchange"));
    // Times of day: one of today, and one that is still to come.
    let (now, minute) = (netloom_sys::clock::realtime(), 60_000_000_000);
    let (since, until) = (now - 10 * minute, now + 3 * minute - 24 * 60 * minute);
    let later = Asked { since_ns: Some(since), until_ns: Some(until), ..Asked::default() };
    assert!(refused(&later).contains("is yesterday's; leave out --until"));
    assert!(refused(&asked(&["h1"])).contains("--link"));
    assert!(refused(&asked(&["x", "y"])).contains("\"x\""));
    assert!(refused(&asked(&["10.0.0.1", "10.0.0.2", "0/tcp"])).contains("80/tcp"));
    assert_eq!(
        refused(&asked(&["10.0.0.1", "fd00::1", "80/tcp"])),
        "\"10.0.0.1\" has IPv4 and \"fd00::1\" has IPv6 addresses: no packet is from one to the other; write nodes or addresses of one kind"
    );
    assert!(refused(&asked(&["fd00::1", "10.0.0.1"])).starts_with("\"fd00::1\" has IPv6 and "));
    // Of a node with both kinds there are pairs.
    let both = vec!["10.0.0.9".parse().unwrap(), "fd00::9".parse().unwrap()];
    let nodes = std::collections::BTreeMap::from([("h9".to_owned(), both)]);
    for one in ["10.0.0.1", "fd00::1", "h9"] {
        assert!(Question::read(&asked(&[one, "h9"]), &nodes).is_ok(), "{one}");
    }
    assert!(refused(&asked(&["1.1.1.1", "1.1.1.2", "1.1.1.3"])).contains("in quotes"));
}

#[test]
fn links_go_by_the_names_that_were_recorded_or_by_what_a_plan_says() {
    let root = tempfile::tempdir().unwrap();
    let find = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        find_links(&Folder::open(root.path(), "lab").unwrap(), &words, |word| match word {
            "r,new" => Ok(Some("r--new".to_owned())),
            "r,b" => Err(Error::Question("which of two?".to_owned())),
            _ => Ok(None),
        })
    };
    let refused = |word: &str| match find(&["a--r", word]) {
        Err(Error::Question(text)) => text,
        other => panic!("{other:?}"),
    };
    let (mut store, links) = store(root.path(), LEAST_KEEP);
    store.append(&blocks(0..10, 1, 10), &links);
    store.finish();
    // One that came later, and one that is in the open segment alone.
    store.link(Link { name: "x--later".to_owned(), ..Link::default() });
    store.append(&blocks(10..20, 1, 10), &links);
    assert_eq!(find(&["a--r", "b--c", "x--later"]).unwrap(), ["a--r", "b--c", "x--later"]);
    assert_eq!(find(&["r,new", "a--r"]).unwrap(), ["r--new", "a--r"]);
    assert_eq!(refused("r,b"), "which of two?");
    assert_eq!(
        refused("b,r"),
        "link \"b,r\": not in the recording of lab \"lab\", which has \"r--b\", \"a--r\", \"b--c\", \"x--later\""
    );
    // Of many, those that look alike come first.
    for at in 0..20 {
        store.link(Link { name: format!("y{at}"), ..Link::default() });
    }
    store.append(&blocks(20..30, 1, 10), &links);
    let told = refused("c");
    assert!(
        told.contains("which has \"b--c\", \"a--r\", ") && told.ends_with(" and 16 more"),
        "{told}"
    );
}

#[test]
fn a_ring_keeps_the_newest_and_never_more_than_it_may() {
    let root = tempfile::tempdir().unwrap();
    let (mut store, links) = store(root.path(), LEAST_KEEP);
    let on_disk = || {
        let files = std::fs::read_dir(root.path().join("lab")).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let mut most = 0;
    for part in 0..400 {
        store.append(&blocks(part * 50..(part + 1) * 50, 2, 500), &links);
        most = most.max(on_disk());
    }
    assert!(most <= LEAST_KEEP, "{most}");
    assert!(most > LEAST_KEEP / 2, "{most}");
    let (bytes, segments) = store.size();
    assert!(bytes <= LEAST_KEEP && segments > 4, "{bytes} {segments}");
    let gone = store.gone_ns();
    drop(store);
    let (all, _) = found(root.path(), &everything());
    let numbers: Vec<u32> = all.iter().map(|frame| number(&frame.data)).collect();
    assert!(numbers[0] > 5000 && numbers.is_sorted(), "{}", numbers[0]);
    assert_eq!(numbers.last(), Some(&19_999));
    // It knows up to when frames gave way.
    let first = BEGIN + u64::from(numbers[0]) * 1000;
    assert!((first - 1000..=first).contains(&gone), "{gone} {first}");
    // The segment of the oldest one's first sighting may be gone.
    let all = usize::try_from(20_000 - numbers[0]).unwrap() * 2;
    assert!(numbers.len() == all || numbers.len() + 1 == all, "{} of {all}", numbers.len());
}

#[test]
fn a_store_knows_that_its_folder_was_removed() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = store(root.path(), LEAST_KEEP);
    assert!(store.is_there() && store.gone_ns() == 0);
    std::fs::remove_dir_all(root.path().join("lab")).unwrap();
    assert!(!store.is_there());
    // Also where another is in its place.
    Folder::make(root.path(), "lab").unwrap().lock().unwrap();
    assert!(!store.is_there());
}

#[test]
fn files_are_the_owners_alone_and_one_store_writes_them() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("records");
    let (mut first, links) = store(&path, LEAST_KEEP);
    first.append(&blocks(0..10, 1, 10), &links);
    first.finish();
    for (path, mode) in [("", 0o700), ("lab", 0o700)] {
        assert_eq!(path_mode(&root.path().join("records").join(path)), mode);
    }
    let files: Vec<_> =
        std::fs::read_dir(path.join("lab")).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    files.iter().for_each(|file| assert_eq!(path_mode(file), 0o600, "{file:?}"));
    assert!(matches!(Folder::open(root.path(), "other"), Err(Error::None { .. })));
    assert!(Folder::make(&path, "../up").is_err());
}

fn path_mode(path: &std::path::Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn what_a_killed_store_left_is_indexed_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, links) = store(root.path(), 64 << 20);
    first.append(&blocks(0..1000, 3, 100), &links);
    // As a kill leaves it: no index, and the last block is cut.
    drop(first);
    let segment = root.path().join("lab/0000000001.pcapng");
    let content = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &content[..content.len() - 30]).unwrap();
    assert!(!root.path().join("lab/0000000001.index").exists());
    // And an index whose segment was removed, and one that was not written to its end.
    let strays = ["0000000099.index", "0000000001.index.new", "0000000007.pcapng.new"];
    let strays = strays.map(|name| root.path().join("lab").join(name));
    strays.iter().for_each(|stray| std::fs::write(stray, b"NLIX").unwrap());
    let (mut second, links) = store(root.path(), 64 << 20);
    let index = std::fs::read(root.path().join("lab/0000000001.index")).unwrap();
    assert!(netloom_sighting::Index::decode(&index).is_ok());
    assert_eq!(strays.map(|stray| stray.exists()), [false; 3]);
    second.append(&blocks(1000..2000, 3, 100), &links);
    second.finish();
    let (all, looked) = found(root.path(), &everything());
    assert_eq!((all.len(), looked.segments), (5999, 2));
    // A damaged index costs as little as a missing one, wherever it is damaged.
    let path = root.path().join("lab/0000000001.index");
    for at in [0, 9, index.len() / 2, index.len() - 1] {
        let mut damaged = index.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(found(root.path(), &everything()).0, all, "byte {at}");
    }
    std::fs::write(&path, &index[..index.len() - 9]).unwrap();
    assert_eq!(found(root.path(), &everything()).0, all);
    std::fs::write(&path, b"NLIX and more").unwrap();
    assert_eq!(found(root.path(), &everything()).0, all);
    drop(second);
    let lone = Store::open(folder(root.path()), About::default(), LEAST_KEEP);
    assert!(lone.is_ok());
}

#[test]
fn an_index_that_was_made_up_is_not_believed() {
    let root = tempfile::tempdir().unwrap();
    let (mut store, links) = store(root.path(), 64 << 20);
    store.append(&blocks(0..5000, 3, 100), &links);
    store.finish();
    let path = root.path().join("lab/0000000001.index");
    let index = netloom_sighting::Index::decode(&std::fs::read(&path).unwrap()).unwrap();
    assert!(index.groups.len() > 3, "{}", index.groups.len());
    let (all, _) = found(root.path(), &everything());
    assert_eq!(all.len(), 15_000);
    for (at, end) in [(1, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (9000, 8000)] {
        // Its hash is right, and so may be all but one group.
        let mut made_up = index.clone();
        (made_up.groups[1].at, made_up.groups[1].end) = (at, end);
        std::fs::write(&path, made_up.encode()).unwrap();
        assert_eq!(found(root.path(), &everything()).0, all, "{at}..{end}");
        made_up.end = u64::MAX;
        std::fs::write(&path, made_up.encode()).unwrap();
        assert_eq!(found(root.path(), &everything()).0, all, "{at}..{end}");
    }
}

#[test]
fn a_status_that_cannot_be_read_counts_as_missing() {
    let root = tempfile::tempdir().unwrap();
    let (mut store, links) = store(root.path(), LEAST_KEEP);
    store.append(&blocks(0..10, 1, 10), &links);
    assert_eq!(store.folder().told(), Told::default());
    let said = Status { keep: 7, ..Status::default() };
    store.folder().tell(&said).unwrap();
    assert_eq!(store.folder().told(), Told { status: said, problem: None });
    for damaged in ["", "{\"lab\": \"la", "[]"] {
        std::fs::write(root.path().join("lab/status.json"), damaged).unwrap();
        let Told { status, problem } = store.folder().told();
        assert_eq!(status, Status::default());
        let problem = problem.unwrap();
        assert!(problem.contains("status.json") && problem.contains("missing"), "{problem}");
        let found = find_links(store.folder(), &["a--r".to_owned()], |_| Ok(None));
        assert_eq!(found.unwrap(), ["a--r"]);
    }
}

#[test]
fn a_segment_is_one_from_its_beginning_and_stays_for_its_frames() {
    let root = tempfile::tempdir().unwrap();
    let segments = || folder(root.path()).segments().unwrap();
    let path = |number: u64| root.path().join(format!("lab/{number:010}.pcapng"));
    let (first, _) = store(root.path(), LEAST_KEEP);
    assert_eq!(segments(), [1]);
    let content = std::fs::read(path(1)).unwrap();
    let mut reader = netloom_pcap::read::Reader::new(&content[..]).unwrap();
    while let Some(item) = reader.next().unwrap() {
        assert!(!matches!(item, netloom_pcap::read::Item::Packet(_)));
    }
    assert!(netloom_sighting::Index::of(&content).is_some());
    // A kill leaves it; of one whose file was made and no more, nothing is there.
    drop(first);
    std::fs::write(path(2), b"").unwrap();
    std::fs::write(path(3), b"of another version").unwrap();
    let (mut second, links) = store(root.path(), LEAST_KEEP);
    assert_eq!(segments(), [3, 4]);
    second.append(&blocks(0..10, 1, 10), &links);
    second.finish();
    drop(second);
    let (mut third, _) = store(root.path(), LEAST_KEEP);
    assert_eq!(segments(), [3, 4, 5]);
    third.finish();
    assert_eq!((segments(), third.size().1), (vec![3, 4], 2));
    let (all, looked) = found(root.path(), &everything());
    assert_eq!((all.len(), looked.strange, looked.gone), (10, 1, 0));
}

#[test]
fn a_full_disk_is_told_and_recording_goes_on_when_there_is_room() {
    netloom_kit::isolated!({
        let root = tempfile::tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("disk", root.path(), "tmpfs", flags, c"size=8m,mode=700").unwrap();
        let ballast = root.path().join("ballast");
        std::fs::write(&ballast, vec![1; 5 << 20]).unwrap();
        {
            let (mut store, links) = store(root.path(), 16 << 20);
            let (mut given, mut told) = (0, false);
            for part in 0..100 {
                store.append(&blocks(part * 100..(part + 1) * 100, 2, 800), &links);
                given += 200;
                told |= store.trouble().is_some_and(|text| text.contains("No space left"));
                let books = store.books();
                assert_eq!(books.stored + books.again + books.dropped.disk, given);
            }
            assert!(told && store.books().dropped.disk > 0, "{:?}", store.books());
            // What there was no room for takes none.
            let names = std::fs::read_dir(root.path().join("lab")).unwrap();
            let names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
            let half = names.iter().any(|name| name.to_string_lossy().ends_with(".new"));
            assert!(!half, "{names:?}");
            let (all, _) = found(root.path(), &everything());
            assert!(all.len() > 1000, "{}", all.len());
            std::fs::remove_file(&ballast).unwrap();
            let lost = store.books().dropped.disk;
            for part in 100..120 {
                store.append(&blocks(part * 100..(part + 1) * 100, 2, 800), &links);
            }
            assert_eq!((store.books().dropped.disk, store.trouble()), (lost, None));
            store.finish();
            let (all, _) = found(root.path(), &everything());
            let newest = all.iter().filter(|frame| number(&frame.data) >= 10_000).count();
            assert_eq!(newest, 4000);
        }
        rustix::mount::unmount(root.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    });
}
