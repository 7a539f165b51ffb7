//! Fields that are one of a few things.

use crate::field::choice;

choice! {
    /// Who connects.
    Role {
        /// A program whose memory the agent manages. Descriptors: the userfaultfd of its private memory, with events,
        /// and that of shared objects, without.
        Program = 1,
        /// A program that cooperates through the library. Descriptor: the userfaultfd of shared objects.
        Library = 2,
        /// Nobody's memory: holds reservations for others (`freehold exec`), or looks (`freehold status`).
        Observer = 3,
    }
}

choice! {
    /// What the child of a fork is to have of a range of private memory: two pieces of advice, each until its opposite
    /// (`madvise(2)`).
    Inheritance {
        /// Its content, where it is mapped (`MADV_KEEPONFORK`).
        Content = 1,
        /// Zeros, where it is mapped (`MADV_WIPEONFORK`).
        Zeros = 2,
        /// Nothing: the range is not mapped there (`MADV_DONTFORK`).
        Nothing = 3,
        /// The mapping (`MADV_DOFORK`).
        Mapping = 4,
    }
}

choice! {
    /// Why a program that a client has begun runs unmanaged.
    Stranger {
        /// It is for another machine than the agent.
        OtherMachine = 1,
        /// It has another C library.
        OtherLibrary = 2,
        /// It is linked statically.
        Static = 3,
        /// It was built with a sanitizer.
        Sanitizer = 4,
        /// It gains rights when it is begun.
        GainsRights = 5,
        /// Its user lacks the rights that the agent needs.
        LacksRights = 6,
        /// Its user, or its root directory, cannot reach the agent or the server's socket.
        OutOfReach = 7,
        /// It forbids itself system calls.
        Filter = 8,
    }
}

impl Stranger {
    /// The same in words, after the program's name.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::OtherMachine => "for another machine than x86-64",
            Self::OtherLibrary => "of another C library",
            Self::Static => "linked statically",
            Self::Sanitizer => "built with a sanitizer",
            Self::GainsRights => "gains rights when it begins",
            Self::LacksRights => "its user lacks CAP_SYS_PTRACE",
            Self::OutOfReach => "cannot reach the agent or the server's socket",
            Self::Filter => "filters its system calls",
        }
    }
}

choice! {
    /// Who a region is for.
    RegionKind {
        /// The tasks of this connection; the name says nothing to others.
        Private = 1,
        /// Whoever opens the same name, as far as the server lets him.
        Shared = 2,
    }
}

choice! {
    /// What a question is about. The answer is a JSON document in a memory object.
    Question {
        /// All reservations, clients, objects, the pool and the store.
        Status = 1,
        /// The same in Prometheus' text format.
        Metrics = 2,
        /// One target: a process id, `pid:0xADDRESS`, a reservation or a region.
        Explain = 3,
        /// Whether a reservation of this size (`30MiB`, `30MiB firm`) would be admitted, and what would have to give.
        WhatIf = 4,
        /// Max(S_i) and Avg(S_i) of the shared objects of the processes named (`PID PID…`), as sampled so far.
        Advise = 5,
        /// What was recorded of the run that the server was started for: given out once, and by no other server.
        Recording = 6,
        /// Whether the laws hold. Everything that the server knows is looked at while no fault is served, so this is
        /// for root and the server's own user.
        Laws = 7,
    }
}

choice! {
    /// Why a request is refused.
    Refusal {
        /// The message itself is wrong; the connection is closed.
        Malformed = 1,
        /// Another version of the protocol.
        Version = 2,
        /// The peer may not do this.
        Forbidden = 3,
        /// Pool, quota or a table is exhausted; the text says what would have to give.
        Exhausted = 4,
        /// A handle, name or address means nothing here.
        Unknown = 5,
        /// A descriptor is missing or is not what it must be.
        Descriptor = 6,
        /// The request cannot be met in the present state; the text says why.
        State = 7,
        /// The server is ending.
        Ending = 8,
    }
}
