use super::*;

fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn archive_bytes_match_exactly() {
    let mut archive = Archive::new();
    archive.directory("bin");
    archive.file("bin/x", 0o755, b"hello");
    archive.symlink("bin/sh", "x");
    #[rustfmt::skip]
    let expected = concat!(
        "070701",
        "00000001",
        "000041ed",
        "00000000",
        "00000000",
        "00000002",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000004",
        "00000000",
        "bin\0\0\0",
        "070701",
        "00000002",
        "000081ed",
        "00000000",
        "00000000",
        "00000001",
        "00000000",
        "00000005",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000006",
        "00000000",
        "bin/x\0",
        "hello\0\0\0",
        "070701",
        "00000003",
        "0000a1ff",
        "00000000",
        "00000000",
        "00000001",
        "00000000",
        "00000001",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000007",
        "00000000",
        "bin/sh\0\0\0\0",
        "x\0\0\0",
        "070701",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000001",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "00000000",
        "0000000b",
        "00000000",
        "TRAILER!!!\0\0\0\0",
    );
    assert_eq!(String::from_utf8(archive.finish()).unwrap(), expected);
}

fn kit(folder: &Path, order: &str) -> VmKit {
    for (name, content) in [("vmlinuz", "k"), ("busybox", "b"), ("tombolod", "t")] {
        std::fs::write(folder.join(name), content).unwrap();
    }
    let modules_dir = folder.join("modules");
    std::fs::create_dir_all(&modules_dir).unwrap();
    std::fs::write(modules_dir.join("order"), order).unwrap();
    std::fs::write(modules_dir.join("vfio.ko"), "m").unwrap();
    let device_modules_dir = folder.join("device-modules");
    std::fs::create_dir_all(&device_modules_dir).unwrap();
    std::fs::write(device_modules_dir.join("order"), "tun.ko\n").unwrap();
    std::fs::write(device_modules_dir.join("tun.ko"), "d").unwrap();
    VmKit {
        kernel: folder.join("vmlinuz"),
        modules: vec![(modules_dir.clone(), init::MODULES), (device_modules_dir, init::DEVICE_MODULES)],
        modules_dir,
        busybox: folder.join("busybox"),
        tombolod: folder.join("tombolod"),
        root: None,
        isa: tombolo_base::Isa::Aarch64,
        remedy: "make kit",
    }
}

#[test]
fn a_boot_image_holds_the_kit() {
    let folder = temporary("pack");
    let packed = String::from_utf8(pack(&kit(&folder, "vfio.ko\n"), &Files::default()).unwrap()).unwrap();
    for name in [
        "init\0",
        "tombolo/tombolod\0",
        "tombolo/busybox\0",
        "tombolo/modules\0",
        "tombolo/modules/vfio.ko\0",
        "tombolo/modules/order\0",
        "tombolo/device-modules/tun.ko\0",
        "tombolo/device-modules/order\0",
    ] {
        assert!(packed.contains(name), "{name:?}");
    }
    let missing = pack(&kit(&folder, "vfio.ko\nother.ko\n"), &Files::default()).unwrap_err();
    assert!(missing.to_string().contains("other.ko"), "{missing}");
    let outside = pack(&kit(&folder, "../vfio.ko\n"), &Files::default()).unwrap_err();
    assert!(matches!(outside, InitramfsError::ModuleName { .. }), "{outside}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn equal_archives_are_stored_once_and_old_ones_evicted() {
    let folder = temporary("cache");
    let cache = folder.join("made/on/demand");
    let first = store(b"one", &cache).unwrap();
    assert_eq!(store(b"one", &cache).unwrap(), first);
    assert_eq!(std::fs::read(&first).unwrap(), b"one");
    let second = store(b"two", &cache).unwrap();
    let old = SystemTime::now() - MAX_CACHE_AGE - Duration::from_secs(60);
    for path in [&first, &second] {
        File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
    }
    std::fs::write(cache.join("other"), "").unwrap();
    store(b"two", &cache).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    left.sort();
    assert_eq!(left, [second.clone(), cache.join("other")]);
    assert!(reuse_cached(&second) && !reuse_cached(&first));
    assert!(!first.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let folder = temporary("no-cache");
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let error = store(b"one", &file).unwrap_err();
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_boot_image_holds_the_nodes_files() {
    let folder = temporary("pack-files");
    let mut kit = kit(&folder, "vfio.ko\n");
    let plain = pack(&kit, &Files::default()).unwrap();
    let own = folder.join("own");
    std::fs::create_dir_all(own.join("usr/bin")).unwrap();
    std::fs::write(own.join("usr/bin/tool"), "a tool").unwrap();
    std::os::unix::fs::symlink("usr/bin", own.join("bin")).unwrap();
    let files = Files::gather(&[own]).unwrap();
    let packed = pack(&kit, &files).unwrap();
    assert_eq!(pack(&kit, &files).unwrap(), packed, "the same files give the same bytes");
    let text = String::from_utf8(packed).unwrap();
    for name in ["init\0", "tombolo/busybox\0", "\0bin\0", "usr/bin/tool\0", "usr/bin/sh\0"] {
        assert!(text.contains(name.trim_start_matches('\0')), "{name:?}");
    }
    assert!(!text.contains("bin/sh\0") || text.contains("usr/bin/sh\0"));
    assert!(plain.len() < text.len());
    std::fs::remove_file(folder.join("own/usr/bin/tool")).unwrap();
    let gone = pack(&kit, &files).unwrap_err();
    assert!(gone.to_string().contains("own/usr/bin/tool"), "{gone}");
    kit.busybox = folder.join("none");
    assert!(matches!(pack(&kit, &files), Err(InitramfsError::Read { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_cache_is_bounded() {
    let now = SystemTime::now();
    let archive = |age_s, length: u64| {
        let path = PathBuf::from(format!("{age_s}-{length}"));
        (now - Duration::from_secs(age_s), length, path)
    };
    let gone = |found: &[(SystemTime, u64, PathBuf)]| -> Vec<String> {
        unused(found, now).into_iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(gone(&[]), [""; 0]);
    // The most recently used archive is retained regardless of its size.
    assert_eq!(gone(&[archive(0, 2 * MAX_CACHE_BYTES), archive(1, MAX_CACHE_BYTES)]), [""; 0]);
    assert_eq!(gone(&[archive(0, 1), archive(1, MAX_CACHE_BYTES), archive(2, 1)]), ["2-1"]);
    let old = MAX_CACHE_AGE.as_secs() + 1;
    assert_eq!(gone(&[archive(0, 1), archive(old, 7)]), [format!("{old}-7")]);
}
