//! `image`: images of containers (module `containers`), and kernels and RAM disks for virtual machines.

mod containers;

use std::time::Duration;

use anyhow::Result;
use netloom_image::{Built, Recipe};
use serde_json::json;

use crate::flags::{Distribution, Image, ImageBuild};
use crate::output::{self, ProgressLine};

/// `netloom image`
pub(crate) fn image(verb: &Image) -> Result<i32> {
    match verb {
        Image::Build(args) => build(args),
        Image::Pull(args) => containers::pull(args),
        Image::Load(args) => containers::load(args),
        Image::List(args) => containers::list(args),
        Image::Show(args) => containers::show(args),
        Image::Remove(args) => containers::remove(args),
        Image::Prune(args) => containers::prune(args),
    }
}

fn build(args: &ImageBuild) -> Result<i32> {
    let Distribution::Debian = args.distribution;
    let recipe = Recipe { kernel: args.kernel.clone(), more: args.more.clone() };
    let mut line = ProgressLine::new();
    let built = netloom_image::build(&args.out, &recipe, &mut |doing| line.show(doing));
    line.clear();
    let built = built?;
    if args.json {
        output::print_json(&as_json(&built))?;
    } else {
        output::print(&text(&built))?;
    }
    Ok(0)
}

fn as_json(built: &Built) -> serde_json::Value {
    let seconds = |time: Duration| time.as_secs_f64();
    json!({
        "kernel": built.kernel,
        "initrd": built.initrd,
        "release": built.image.release,
        "kernel_bytes": built.image.kernel_bytes,
        "initrd_bytes": built.image.initrd_bytes,
        "packages": built.image.packages,
        "cached": built.took.is_none(),
        "download_s": built.took.map(|(download, _)| seconds(download)),
        "build_s": built.took.map(|(_, build)| seconds(build)),
    })
}

fn text(built: &Built) -> String {
    let image = &built.image;
    let how = match built.took {
        None => "was there".to_owned(),
        Some((download, build)) => {
            format!(
                "downloaded in {:.1} s, built in {:.1} s",
                download.as_secs_f64(),
                build.as_secs_f64()
            )
        }
    };
    format!(
        "kernel  {}  {}, Linux {}\ninitrd  {}  {}\n{}, {how}\n",
        built.kernel.display(),
        output::bytes(image.kernel_bytes),
        image.release,
        built.initrd.display(),
        output::bytes(image.initrd_bytes),
        output::count(image.packages.len(), "package"),
    )
}
