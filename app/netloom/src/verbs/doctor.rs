//! `doctor`: the capabilities of this machine.

use anyhow::Result;
use netloom_lab::doctor::features;
use serde::Serialize;

use crate::flags::Json;
use crate::output;

#[derive(Serialize)]
struct Finding {
    feature: &'static str,
    purpose: &'static str,
    available: bool,
    detail: String,
    needs: Option<String>,
    /// What works without it.
    instead: Option<&'static str>,
}

/// `netloom doctor`
pub(crate) fn doctor(args: &Json) -> Result<i32> {
    let findings: Vec<Finding> = features()
        .into_iter()
        .map(|f| match f.state {
            Ok(detail) => Finding {
                feature: f.name,
                purpose: f.purpose,
                available: true,
                detail,
                needs: None,
                instead: None,
            },
            Err(u) => Finding {
                feature: f.name,
                purpose: f.purpose,
                available: false,
                detail: u.reason,
                needs: Some(u.needs),
                instead: Some(f.instead).filter(|instead| !instead.is_empty()),
            },
        })
        .collect();
    if args.json {
        output::print_json(&findings)?;
    } else {
        output::print(&text(&findings))?;
    }
    // Nothing works without the first features.
    let vital = findings.iter().take(netloom_lab::doctor::VITAL).all(|f| f.available);
    Ok(if vital { 0 } else { 3 })
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for f in findings {
        let mark = if f.available { "yes" } else { "no " };
        text.push_str(&format!("{mark} {}: {}\n", f.feature, f.purpose));
        let detail = f.detail.trim();
        if !detail.is_empty() {
            text.push_str(&format!("      {detail}\n"));
        }
        if let Some(needs) = &f.needs {
            text.push_str(&format!("      {needs}\n"));
        }
        if let Some(instead) = f.instead {
            text.push_str(&format!("      instead: {instead}\n"));
        }
    }
    text
}
