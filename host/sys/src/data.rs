//! Where netloom keeps what outlives labs: images, recordings.

use std::path::PathBuf;

use rustix::process::geteuid;

/// This user's folder: `$NETLOOM_DATA_DIR`, else /var/lib/netloom for root, else `$XDG_DATA_HOME/netloom` or
/// ~/.local/share/netloom, as an absolute path. `None` for an ordinary user without a home.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let data = set("NETLOOM_DATA_DIR").or_else(|| {
        if geteuid().is_root() {
            return Some("/var/lib/netloom".into());
        }
        let data = set("XDG_DATA_HOME").filter(|dir| dir.is_absolute());
        let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")));
        data.map(|data| data.join("netloom"))
    })?;
    Some(std::path::absolute(&data).unwrap_or(data))
}
