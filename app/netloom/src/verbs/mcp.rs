//! `mcp`: labs as tools of an agent, by the Model Context Protocol.

use anyhow::{Context, Result};
use netloom_mcp::Scope;

use crate::flags::Mcp;
use crate::labs;

/// `netloom mcp`
pub(crate) fn mcp(lab: Option<&str>, args: &Mcp) -> Result<i32> {
    let scope = Scope {
        program: std::env::current_exe().context("netloom: find its program")?,
        connect: |lab| labs::connect(lab).map_err(|error| format!("{error:#}")),
        lab: labs::name(lab)?,
        read_only: args.read_only,
    };
    netloom_mcp::serve(scope)?;
    Ok(0)
}
