//! Icons of 16 by 16 pixels: lines in the colour of what they stand for.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::style::class;
use crate::drawing::Role;

/// Defines the icons that a picture uses.
pub(super) fn define(out: &mut String, roles: &BTreeSet<Role>) {
    out.push_str("<defs>\n");
    for role in roles {
        let _ = writeln!(
            out,
            "<path id=\"i-{}\" class=\"icon\" d=\"{}\"/>",
            class(*role),
            lines(*role)
        );
    }
    out.push_str("</defs>\n");
}

fn lines(role: Role) -> &'static str {
    match role {
        // A screen on its foot.
        Role::Host => {
            "M2.8 2.5h10.4q1.3 0 1.3 1.3v5.9q0 1.3-1.3 1.3H2.8q-1.3 0-1.3-1.3V3.8q0-1.3 1.3-1.3zM8 11v2.5M5 13.5h6"
        }
        // A circle with arrows in and out.
        Role::Router => {
            "M14.7 8a6.7 6.7 0 1 1-13.4 0a6.7 6.7 0 1 1 13.4 0zM4.2 6.1h6.4M9 4.4l1.8 1.7L9 7.8M11.8 9.9H5.4M7 8.2L5.2 9.9 7 11.6"
        }
        // A chip.
        Role::Guest => {
            "M4 4h8v8H4zM6.5 6.5h3v3h-3zM6 4V1.8M10 4V1.8M6 14.2V12M10 14.2V12M4 6H1.8M4 10H1.8M14.2 6H12M14.2 10H12"
        }
        // A case with ports.
        Role::Switch => {
            "M2.2 4.2h11.6q1.2 0 1.2 1.2v5.2q0 1.2-1.2 1.2H2.2Q1 11.8 1 10.6V5.4q0-1.2 1.2-1.2zM3.8 9.6V8M6.6 9.6V8M9.4 9.6V8M12.2 9.6V8M3.8 6.2h2"
        }
        // A cloud.
        Role::Internet => {
            "M4.4 12.8a3.1 3.1 0 0 1-.4-6.2 4.1 4.1 0 0 1 7.9-.5 3.4 3.4 0 0 1-.3 6.7z"
        }
        // A socket.
        Role::HostInterface => "M2.3 2.8h11.4v10.4H2.3zM5 13.2V9.6h6v3.6M6.5 9.6V7.8h3v1.8",
        // A line that ends.
        Role::Nowhere => "M14 8a6 6 0 1 1-12 0a6 6 0 1 1 12 0zM5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2",
    }
}
