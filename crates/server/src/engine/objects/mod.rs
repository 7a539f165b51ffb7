//! Objects: regions, files, and the private memory of clients.

mod file_memory;
pub(super) mod file_readers;
pub(super) mod file_reads;
pub(super) mod idle_files;
mod object;
pub(super) mod sampling;
pub(super) mod source_file;
pub(super) mod victim_pages;

use crate::engine::Engine;
use crate::engine::keys::{ClientRole, ObjectKey, Opened, RegionRequest};
use crate::engine::objects::file_memory::FileMemory;
use crate::engine::objects::idle_files::IdleFiles;
use crate::engine::objects::source_file::SourceFile;
use crate::engine::prefetch::StartupHistory;
use crate::engine::rows_of;
pub(crate) use object::{Content, Identity, Object, SegmentAt};

use crate::engine::transfers::store_ranges::StoreRanges;
use crate::error::EngineError;
use crate::settings::Settings;
use freehold_core::id::ObjectId;
use freehold_core::limits::{ObjectKind, ObjectSpec, Regime};
use freehold_core::units::{ByteLen, PageCount};
use freehold_linux::memory::{PagedMemfd, PagedMemfdError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What there are no more of, in a refusal.
pub(super) const OF_ONE_USER: &str = "objects, or their pages, of one user: others end, or a larger pool";

/// All objects.
#[derive(Debug)]
pub(super) struct Objects {
    /// By the core's object slots.
    rows: Vec<Option<Object>>,
    regions: BTreeMap<(u32, String), ObjectId>,
    files: BTreeMap<Identity, ObjectId>,
    /// Pages of files.
    file_pages: u32,
    /// Files that found no room, each time that one was to be mapped.
    pub(super) files_left_out: u64,
    /// Which of the store's records are whose.
    records: StoreRanges,
    /// Files that nobody uses.
    pub(super) idle_files: IdleFiles,
    /// Makes the memory of files' objects.
    file_memory: FileMemory,
}

rows_of!(Objects { rows: [Option<Object>] });

impl Objects {
    /// None yet.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            rows: (0..settings.tables.objects).map(|_| None).collect(),
            regions: BTreeMap::new(),
            files: BTreeMap::new(),
            file_pages: 0,
            files_left_out: 0,
            records: StoreRanges::new(settings.pages.get()),
            idle_files: IdleFiles::new(settings.pages.get()),
            file_memory: FileMemory::new(),
        }
    }

    /// About how many pages more there can be.
    pub(super) fn pages_left(&self) -> u32 {
        self.records.left()
    }

    /// Pages of files.
    pub(super) fn file_pages(&self) -> u32 {
        self.file_pages
    }

    /// Which of the store's records are whose.
    pub(super) fn records(&self) -> &StoreRanges {
        &self.records
    }

    /// Whose record it is, and of which page; `None` where it is nobody's.
    pub(super) fn with_record(&self, record: u32) -> Option<(&Object, u32)> {
        let (first, id) = self.records.owner(record)?;
        let object = self.rows.get(id.index())?.as_ref().filter(|object| object.id == id)?;
        (record - first < object.pages).then_some((object, record - first))
    }

    /// Whether there is an object of this state of a file.
    pub(super) fn has_file(&self, identity: &Identity) -> bool {
        self.files.contains_key(identity)
    }

    /// Whoever opens the same region or file again gets another object.
    pub(super) fn forget_name(&mut self, id: ObjectId) {
        match self.rows.get(id.index()).and_then(Option::as_ref) {
            Some(Object {
                content: Content::Region { named: true, .. },
                uid,
                name,
                ..
            }) => {
                self.regions.remove(&(*uid, name.clone()));
            }
            Some(Object {
                content: Content::File { identity, .. },
                ..
            }) => {
                self.files.remove(identity);
            }
            _ => {}
        }
    }

    /// Takes an object out, and gives its records back.
    pub(super) fn take(&mut self, id: ObjectId) -> Option<Object> {
        let object = self.rows.get_mut(id.index())?.take_if(|object| object.id == id)?;
        self.records.give_back(object.record, object.pages);
        if matches!(object.content, Content::File { .. }) {
            self.file_pages = self.file_pages.saturating_sub(object.pages);
        }
        Some(object)
    }
}

impl Engine {
    pub(super) fn object(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id.index())?.as_ref().filter(|object| object.id == id)
    }

    pub(super) fn object_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.objects
            .get_mut(id.index())?
            .as_mut()
            .filter(|object| object.id == id)
    }

    /// Opens the object of a file's content for a user's client; `path` is only for reports. The answer holds a
    /// read-only descriptor. Whatever programs map leaves room for private memory; what libraries ask for is their own
    /// choice.
    ///
    /// # Errors
    /// [`EngineError::Limit`], [`EngineError::Create`], [`EngineError::System`].
    pub fn open_file(
        &mut self,
        file: &SourceFile,
        regime: Regime,
        path: &str,
        (user, role): (u32, ClientRole),
    ) -> Result<Opened, EngineError> {
        self.step(|engine| {
            let found = engine.objects.files.get(&file.identity()).copied();
            let object = match found.filter(|object| engine.is_of_use(*object, regime)) {
                Some(object) => {
                    engine.use_again(object, file, user);
                    object
                }
                None => {
                    if role == ClientRole::Program {
                        engine.make_room_for_file(file, user)?;
                    }
                    engine.make_file(file, regime, (path, user))?
                }
            };
            engine.open(object, true)
        })
    }

    /// Whether the object of a file can be opened; an idle one, under another regime, makes room.
    fn is_of_use(&mut self, object: ObjectId, regime: Regime) -> bool {
        let other = |row: &Object| row.idle.is_some() && row.regime != regime;
        let of_use = !self.object(object).is_some_and(other);
        if !of_use {
            self.doom(object);
        }
        of_use
    }

    /// Somebody opens the object of a file that is there already.
    fn use_again(&mut self, object: ObjectId, source: &SourceFile, user: u32) {
        if let Some(row) = self.object_mut(object).filter(|row| row.idle.is_some()) {
            row.payer = user;
        }
        self.no_longer_idle(object);
        if let Some(Content::File { file, .. }) = self.object_mut(object).map(|row| &mut row.content) {
            // Who has wanted to write has taken the lease of the other away.
            if file.is_none() || source.cached().is_some() {
                *file = Some(source.file());
            }
        }
    }

    fn make_file(
        &mut self,
        source: &SourceFile,
        regime: Regime,
        (path, user): (&str, u32),
    ) -> Result<ObjectId, EngineError> {
        let identity = source.identity();
        let pages = pages_of(&identity)?;
        let memory = self.back(pages.get(), |objects| objects.file_memory.create(path, pages))?;
        let content = Content::File {
            memory,
            file: Some(source.file()),
            identity,
            changed: false,
            cached: source.cached(),
            startup_history: StartupHistory::default(),
        };
        let object = self.make_object(ObjectKind::File, pages, regime, content, user)?;
        self.note_changed(&identity);
        self.objects.files.insert(identity, object);
        self.objects.file_pages += pages.get();
        if let Some(row) = self.object_mut(object) {
            path.clone_into(&mut row.name);
        }
        Ok(object)
    }

    /// A file that finds no room is left to the kernel.
    fn make_room_for_file(&mut self, source: &SourceFile, user: u32) -> Result<(), EngineError> {
        let pages = pages_of(&source.identity())?.get();
        let mut has_room = self.may_have_file(user, pages);
        while has_room && !self.has_room_for_file(pages) {
            has_room = self.make_room();
        }
        if has_room {
            return Ok(());
        }
        self.objects.files_left_out += 1;
        Err(EngineError::Limit { what: "pages of files" })
    }

    /// Another state of the same file is there already: it has changed under its users.
    fn note_changed(&mut self, now: &Identity) {
        let same = |old: &Identity| old.device == now.device && old.inode == now.inode;
        let others = self.objects.files.iter().filter(|(old, _)| same(old));
        let others: Vec<ObjectId> = others.map(|(_, object)| *object).collect();
        for object in others {
            if self.object(object).is_some_and(|row| row.idle.is_some()) {
                self.doom(object);
                continue;
            }
            let mut text = None;
            if let Some(row) = self.object_mut(object)
                && let Content::File { changed, .. } = &mut row.content
                && !std::mem::replace(changed, true)
            {
                text = Some(format!(
                    "{} has changed while it is in use: its pages may be of either state",
                    row.name
                ));
            }
            if let Some(text) = text {
                self.notice(text);
            }
        }
    }

    /// Opens a user's region, the named one if it is there. The answer holds a descriptor to read and write. Whether
    /// the peer may have it is the caller's to judge.
    ///
    /// # Errors
    /// [`EngineError::Differs`], [`EngineError::Limit`], [`EngineError::Create`], [`EngineError::System`].
    pub fn open_region(&mut self, request: &RegionRequest<'_>) -> Result<Opened, EngineError> {
        self.step(|engine| {
            let key = (request.uid, request.name.to_owned());
            let found = engine.objects.regions.get(&key).copied().filter(|_| request.shared);
            let object = match found.and_then(|object| engine.object(object)) {
                Some(row) if row.pages != request.pages || row.regime != request.regime => {
                    return Err(EngineError::Differs);
                }
                Some(row) => row.id,
                None => engine.make_region(request)?,
            };
            engine.open(object, false)
        })
    }

    fn make_region(&mut self, request: &RegionRequest<'_>) -> Result<ObjectId, EngineError> {
        let pages = request.pages as usize;
        let memory = self.back(request.pages, |_| PagedMemfd::create(c"freehold-region", pages, false))?;
        let content = Content::Region {
            memory: Arc::new(memory),
            named: request.shared,
        };
        let kind = if request.shared {
            ObjectKind::Shared
        } else {
            ObjectKind::Private
        };
        let object = self.make_object(
            kind,
            PageCount::new(request.pages),
            request.regime,
            content,
            request.uid,
        )?;
        if let Some(row) = self.object_mut(object) {
            request.name.clone_into(&mut row.name);
            row.uid = request.uid;
        }
        if request.shared {
            self.objects
                .regions
                .insert((request.uid, request.name.to_owned()), object);
        }
        Ok(object)
    }

    /// Makes an object of the core, with records in the store, and enters it in a user's part of the tables.
    pub(super) fn make_object(
        &mut self,
        kind: ObjectKind,
        pages: PageCount,
        regime: Regime,
        content: Content,
        user: u32,
    ) -> Result<ObjectId, EngineError> {
        if !self.may_have(user, pages.get()) {
            return Err(EngineError::Limit { what: OF_ONE_USER });
        }
        let spec = ObjectSpec { kind, pages, regime };
        let (id, record) = loop {
            match self.enter_object(spec) {
                Err(_) if self.make_room() => {}
                entered => break entered?,
            }
        };
        if let Some(row) = self.objects.get_mut(id.index()) {
            *row = Some(Object {
                id,
                name: String::new(),
                uid: 0,
                payer: user,
                regime,
                pages: pages.get(),
                record,
                content,
                openings: 0,
                idle: None,
                doomed: None,
                segments: Vec::new(),
            });
        }
        Ok(id)
    }

    /// An object of the core, and the first of its records.
    fn enter_object(&mut self, spec: ObjectSpec) -> Result<(ObjectId, u32), EngineError> {
        let pages = spec.pages.get();
        let record = self
            .objects
            .records
            .take(pages)
            .ok_or(EngineError::Limit { what: "pages" })?;
        match self.core.create_object(spec) {
            Ok(id) => {
                self.objects.records.own(record, id);
                Ok((id, record))
            }
            Err(error) => {
                self.objects.records.give_back(record, pages);
                Err(error.into())
            }
        }
    }

    /// Memory for an object.
    fn back(
        &mut self,
        pages: u32,
        create: impl Fn(&Objects) -> Result<PagedMemfd, PagedMemfdError>,
    ) -> Result<PagedMemfd, EngineError> {
        if pages == 0 {
            return Err(EngineError::Range { what: "object" });
        }
        loop {
            let created = create(&self.objects).and_then(|mut memory| {
                if let Some(filler) = &self.backing.sources.filler {
                    memory.fill_through(filler)?;
                }
                Ok(memory)
            });
            match created {
                Ok(memory) => return Ok(memory),
                Err(_) if self.make_room() => {}
                Err(_) => {
                    return Err(EngineError::Limit {
                        what: "locked memory, for an object",
                    });
                }
            }
        }
    }

    fn open(&mut self, object: ObjectId, read_only: bool) -> Result<Opened, EngineError> {
        let row = self.object_mut(object).ok_or(EngineError::NoSuchObject)?;
        row.openings += 1;
        let pages = row.pages;
        let descriptor = match row.memory() {
            Some(memory) if read_only => memory.read_only_descriptor(),
            Some(memory) => memory.descriptor(),
            None => Err(rustix::io::Errno::BADF),
        };
        match descriptor {
            Ok(descriptor) => Ok(Opened {
                object,
                pages,
                descriptor,
            }),
            Err(errno) => {
                self.close_row(object);
                Err(EngineError::System {
                    what: "a descriptor of the object could not be made",
                    errno,
                })
            }
        }
    }

    /// Whether a user has a region of this name.
    #[must_use]
    pub fn has_region(&self, user: u32, name: &str) -> bool {
        self.objects.regions.contains_key(&(user, name.to_owned()))
    }

    /// Ends one opening of an object. It is forgotten when it was opened by nobody else and nobody maps it.
    pub fn close_object(&mut self, object: ObjectKey) {
        self.step(|engine| {
            engine.close_row(object);
        });
    }

    fn close_row(&mut self, object: ObjectId) {
        if let Some(row) = self.object_mut(object) {
            row.openings = row.openings.saturating_sub(1);
        }
        self.forget_if_unused(object);
    }
}

fn pages_of(file: &Identity) -> Result<PageCount, EngineError> {
    ByteLen::new(file.size).to_pages().ok_or(EngineError::Descriptor {
        what: "the file",
        why: "it is too long",
    })
}

/// Some objects, for tests: only a core makes them.
#[cfg(test)]
pub(super) fn some_objects<const COUNT: usize>() -> [ObjectId; COUNT] {
    let mut core = small_core();
    [(); COUNT].map(|()| new_object(&mut core))
}

/// Some mappings, for tests.
#[cfg(test)]
pub(super) fn some_mappings<const COUNT: usize>() -> [freehold_core::id::MappingId; COUNT] {
    let mut core = small_core();
    let task = core.add_task(None).expect("a task of the pool");
    [(); COUNT].map(|()| {
        let object = new_object(&mut core);
        core.map(task, object).expect("room for its mapping")
    })
}

#[cfg(test)]
fn small_core() -> freehold_core::Memory {
    use freehold_core::units::FrameCount;
    let limits = crate::engine::limits(&Settings::new(FrameCount::new(64)));
    limits.seal().expect("a small core")
}

#[cfg(test)]
fn new_object(core: &mut freehold_core::Memory) -> ObjectId {
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(1),
        regime: Regime::Conserve,
    };
    core.create_object(spec).expect("room for it")
}
