//! Whether the sockets of a lab's processes have paths that the kernel takes, before any process is started.
//!
//! The path of a UNIX socket is `sun_path` of unix(7), without its last byte. A process with a longer one would fail with an
//! error that names neither the switch nor what to do.

use std::path::PathBuf;

use netloom_model::Plan;
use netloom_node::spec::socket_name;

use crate::store::state::{Folder, LONGEST, MOST_SOCKET};
use crate::{Error, Result, Subject};

/// A socket, whose it is, and what makes its path shorter besides another folder.
struct Planned {
    of: Subject,
    path: PathBuf,
    or: &'static str,
}

/// Refuses a plan with a socket whose path is too long.
///
/// # Errors
/// [`Error::Invalid`] with the path and the limit.
pub(crate) fn check(folder: &Folder, plan: &Plan) -> Result<()> {
    all(folder, plan).try_for_each(|socket| {
        let length = socket.path.as_os_str().len();
        if length <= MOST_SOCKET {
            return Ok(());
        }
        let Planned { of: object, path, or } = socket;
        let reason = format!(
            "its socket {path:?} has a path of {length} bytes, and the kernel takes {MOST_SOCKET}; set NETLOOM_RUNTIME_DIR \
             to a shorter folder than {:?}{or}",
            folder.runtime()
        );
        Err(Error::Invalid { object, reason })
    })
}

fn all<'a>(folder: &'a Folder, plan: &'a Plan) -> impl Iterator<Item = Planned> + 'a {
    let socket =
        |kind, name: &str, path: PathBuf, or| Planned { of: Subject::of(kind, name), path, or };
    let switches = plan.switches.iter().filter_map(move |switch| {
        let name = &switch.name;
        let or = ", or give the switch or the lab a shorter name";
        if switch.kind.as_shm().is_some() {
            let path = netloom_shm::name::socket(folder.runtime(), folder.name(), name);
            return Some(socket("switch", name, path, or));
        }
        let path = folder.flow_socket(name);
        switch.kind.as_openflow().map(|_| socket("switch", name, path, or))
    });
    let nodes = plan.nodes.iter().flat_map(move |node| {
        let or = ", or give the lab a shorter name";
        let of_init = folder.sockets().join(socket_name(node.id.get()));
        let plane = node.kind.has_separate_plane();
        let of_plane = plane.then(|| folder.flow_socket(&node.plane_name()));
        let of_scope = node.children.as_ref().map(|_| folder.scope(node.id).join(LONGEST));
        let paths = [Some(of_init), of_plane, of_scope].into_iter().flatten();
        paths.map(move |path| socket("node", &node.name, path, or))
    });
    let slices = plan.slices.iter().flat_map(move |slice| {
        let or = ", or give the slice, the switch or the lab a shorter name";
        let path = |switch: &String| folder.virtual_socket(&slice.name, switch);
        slice.switches.keys().map(move |switch| socket("slice", &slice.name, path(switch), or))
    });
    switches.chain(nodes).chain(slices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(runtime: usize, text: &str) -> Option<String> {
        let lab = netloom_model::parse("lab", text.as_bytes(), "lab").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let runtime = PathBuf::from(format!("/{}", "r".repeat(runtime - 1)));
        check(&Folder::new(&runtime, "lab"), &plan).err().map(|e| e.to_string())
    }

    /// The longest folder of labs in which all sockets fit, by what is in a lab.
    #[test]
    fn a_socket_that_the_kernel_would_not_take_is_refused_with_its_path_and_the_limit() {
        let long = "s".repeat(60);
        let shm = format!("switches: {{{long}: {{kind: shm}}}}");
        let short = "switches: {s1: {kind: openflow}}";
        let flow = format!("switches: {{{long}: {{kind: openflow}}}}");
        for (text, most) in [
            // /lab/n/0.sock
            ("nodes: {a: {}}", 107 - 13),
            // /lab/o/s1/openflow
            (short, 107 - 18),
            // A long name is cut in the path: /lab/o/(24 bytes)/openflow
            (&*flow, 107 - 40),
            // /.switches/lab.(60 bytes)
            (&*shm, 107 - 75),
            // /lab/s/0/handles.sock
            ("nodes: {a: {children: {nodes: {b: {}}}}}", 107 - 21),
        ] {
            assert_eq!(refused(most, text), None, "{text}");
            let words = refused(most + 1, text).unwrap_or_else(|| panic!("{text}"));
            assert!(words.contains("has a path of 108 bytes, and the kernel takes 107"), "{words}");
            assert!(words.contains("set NETLOOM_RUNTIME_DIR to a shorter folder"), "{words}");
        }
        let words = refused(90, short).unwrap();
        let path = format!("switch \"s1\": its socket \"/{}/lab/o/s1/openflow\"", "r".repeat(89));
        assert!(words.starts_with(&path), "{words}");
    }
}
