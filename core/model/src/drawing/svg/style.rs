//! Colours and words of a picture.

use crate::drawing::Role;

pub(super) const IMPAIRED: &str = "impaired link";

/// The style sheet.
pub(super) const STYLE: &str = "
svg{color-scheme:light dark}
text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;fill:#1d2733}
.back{fill:#fff}
.lab{font-size:18px;font-weight:700}
.summary{font-size:12px;fill:#5c6978}
.name{font-size:12px;font-weight:600}
.caption{font-size:9.5px;fill:#5c6978}
.legend text{font-size:11px;fill:#5c6978}
.link path{fill:none;stroke:#93a0b0;stroke-width:1.5;stroke-linejoin:round}
.link .near{stroke:transparent;stroke-width:10}
.link:hover path:not(.near){stroke:#2f6fdb;stroke-width:3}
.impaired path:not(.near){stroke:#e07b16;stroke-width:1.8}
.frame rect{fill:#7d8a99;fill-opacity:.07;stroke:#93a0b0;stroke-dasharray:5 4}
.box{stroke-width:1.3}
.icon{fill:none;stroke-width:1.3;stroke-linecap:round;stroke-linejoin:round}
.end rect{fill:#fff;fill-opacity:.88}
.end text{font-size:9px;fill:#5c6978;text-anchor:middle}
.pill rect,.pill circle{fill:#fff3e2;stroke:#e07b16}
.pill text{font-size:9.5px;fill:#8a4a06;text-anchor:middle}
.host .box{fill:#eaf7ed;stroke:#3a9a5b}.host use{stroke:#2a7a46}
.router .box{fill:#e8f0fe;stroke:#3b78dd}.router use{stroke:#2559b3}
.guest .box{fill:#f2eafc;stroke:#8b50c9}.guest use{stroke:#6d36a8}
.switch .box{fill:#fff5dd;stroke:#c08a1d}.switch use{stroke:#8d6207}
.internet .box{fill:#fdecee;stroke:#cc4a59}.internet use{stroke:#a83341}
.outside .box{fill:#f1f3f6;stroke:#7d8a99;stroke-dasharray:4 3}.outside use{stroke:#5c6978}
.nowhere .box{fill:#f1f3f6;stroke:#7d8a99;stroke-dasharray:2 3}.nowhere use{stroke:#5c6978}
@media (prefers-color-scheme:dark){
text{fill:#e7ecf2}
.back{fill:#12161c}
.summary,.caption,.legend text,.end text{fill:#9eabb9}
.link path{stroke:#5f6d7e}
.link .near{stroke:transparent}
.link:hover path:not(.near){stroke:#7fb0ff}
.impaired path:not(.near){stroke:#ff9f45}
.frame rect{stroke:#5f6d7e}
.end rect{fill:#12161c}
.pill rect,.pill circle{fill:#3a2508;stroke:#ff9f45}
.pill text{fill:#ffc98f}
.host .box{fill:#12301d;stroke:#4fae6f}.host use{stroke:#7ed59b}
.router .box{fill:#14284a;stroke:#5e96f2}.router use{stroke:#9cc1ff}
.guest .box{fill:#2b1b42;stroke:#a06fdd}.guest use{stroke:#cba6fb}
.switch .box{fill:#36290b;stroke:#cf9b35}.switch use{stroke:#f0c66c}
.internet .box{fill:#3c1a20;stroke:#dd6472}.internet use{stroke:#f79ba5}
.outside .box,.nowhere .box{fill:#20262e;stroke:#7d8a99}.outside use,.nowhere use{stroke:#b3bfcc}
}
";

/// The class of a role.
pub(super) fn class(role: Role) -> &'static str {
    match role {
        Role::Host => "host",
        Role::Router => "router",
        Role::Guest => "guest",
        Role::Switch => "switch",
        Role::Internet => "internet",
        Role::HostInterface => "outside",
        Role::Nowhere => "nowhere",
    }
}

/// What a role is called.
pub(super) fn word(role: Role) -> &'static str {
    match role {
        Role::Host => "host",
        Role::Router => "router",
        Role::Guest => "virtual machine",
        Role::Switch => "switch",
        Role::Internet => "internet",
        Role::HostInterface => "interface of this machine",
        Role::Nowhere => "leads nowhere",
    }
}

/// How round the corners of a box are.
pub(super) fn radius(role: Role, height: f64) -> f64 {
    match role {
        Role::Router | Role::Internet => height / 2.0,
        Role::Switch => 3.0,
        _ => 7.0,
    }
}
