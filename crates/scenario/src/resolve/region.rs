//! The rules of regions.

use super::MAX_PAGES;
use super::checks::{Lookup, pages, refuse};
use crate::error::{Fault, Warning};
use crate::model::{Region, RegionIndex, RegionKind, Sharing, Task};
use crate::spec::{RegionSpec, ScenarioSpec};
use freehold_core::units::PageCount;
use std::collections::BTreeSet;

pub(super) fn resolve(spec: &ScenarioSpec) -> Result<Vec<Region>, Fault> {
    let names = Lookup::new("region", spec.regions.iter().map(|region| region.name.as_str()))?;
    let mut regions = Vec::with_capacity(spec.regions.len());
    let mut total = 0_u64;
    for (position, region) in spec.regions.iter().enumerate() {
        let path = format!("region.{position}");
        let copy_of = base(&path, region, spec, &names)?;
        let size_path = format!("{path}.size");
        let pages = match (region.size, copy_of) {
            (Some(size), _) => pages(&size_path, size, u32::MAX)?,
            (None, Some((base, _))) => pages(&format!("region.{base}.size"), size_of(spec, base)?, u32::MAX)?,
            (None, None) => return refuse(size_path, "is missing: give the region's size, such as \"10MiB\""),
        };
        total += u64::from(pages.get());
        if total > u64::from(MAX_PAGES) {
            let message = format!("all regions up to this one have {total} pages: at most {MAX_PAGES} (256GiB)");
            return refuse(size_path, message);
        }
        if let Some((base, base_pages)) = copy_of
            && base_pages != pages
        {
            let message = format!("a copy has the size of its base, {base_pages}, not {pages}: leave `size` out");
            return Err(Fault::new(size_path, message).with(format!("region.{base}.size")));
        }
        regions.push(Region {
            name: region.name.clone(),
            kind: region.kind,
            pages,
            sharing: region.sharing,
            copy_of: copy_of.map(|(base, _)| RegionIndex::new(base)),
        });
    }
    Ok(regions)
}

/// The base of a copy-on-write view, and its size.
fn base(
    path: &str,
    region: &RegionSpec,
    spec: &ScenarioSpec,
    names: &Lookup<'_>,
) -> Result<Option<(u16, PageCount)>, Fault> {
    let Some(name) = &region.copy_of else {
        return Ok(None);
    };
    let path = format!("{path}.copy_of");
    let position = names.find(&path, name)?;
    if region.kind != RegionKind::Private {
        let message = "only a region of kind \"private\" is a copy-on-write view: set `kind = \"private\"`";
        return refuse(path, message);
    }
    if spec
        .regions
        .get(usize::from(position))
        .is_none_or(|base| base.kind != RegionKind::File)
    {
        return refuse(
            path,
            format!("`{name}` is not of kind \"file\": only a file's pages are copied on write"),
        );
    }
    if region.sharing == Sharing::None {
        return refuse(path, "a copy-on-write view cannot have sharing \"none\": say \"spc\"");
    }
    let pages = pages(&format!("region.{position}.size"), size_of(spec, position)?, u32::MAX)?;
    Ok(Some((position, pages)))
}

fn size_of(spec: &ScenarioSpec, position: u16) -> Result<freehold_core::units::ByteLen, Fault> {
    let size = spec.regions.get(usize::from(position)).and_then(|region| region.size);
    size.ok_or_else(|| Fault::new(format!("region.{position}.size"), "is missing: give the region's size"))
}

/// Says where a private region is in fact used from several reservations.
pub(super) fn warn_shared_private(regions: &[Region], tasks: &[Task], warnings: &mut Vec<Warning>) {
    for (position, region) in (0_u16..).zip(regions) {
        let index = RegionIndex::new(position);
        let touching = tasks
            .iter()
            .filter(|task| task.accesses.iter().any(|step| step.region == index));
        let users: BTreeSet<_> = touching.map(|task| task.reservation).collect();
        if region.kind == RegionKind::Private && users.len() > 1 {
            let message = "is private but used from several reservations: it is treated as shared".to_owned();
            warnings.push(Warning {
                key: format!("region.{}", region.name),
                message,
            });
        }
    }
}
