// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostresolv watches the host's resolv.conf and hands it out as immutable
// snapshots.
//
// The kubelet opens the file for every pod and fails the pod if it happens to be
// half-written, empty or gone. This package exists so that the shim, the refresher
// and the DNS servers do not: they all see the last good file, learn at once when
// there is a newer one, and can say why the present one is not used.
//
// A [Watcher] is made by [New], which reads the file once, so that
// [Watcher.Current] is valid from the start. [Watcher.Run] keeps it up to date:
//
//	links on the way --inotify--+
//	the file itself --inotify---+--> debounce --> read --> validate --> publish
//	poll -----------------------+
//
// A host's resolv.conf is written by rename, by truncation, through links that are
// swapped and through bind mounts. So the watches are on every directory on the way,
// from the root on, in which a link, the next directory or the file may be replaced,
// and on the file itself: a directory says nothing when a file that is bind-mounted
// into it is written through its source. What inotify cannot see is left to the poll:
// network file systems, mounts that cover the file. Nobody can see a file whose source was
// replaced by rename after it was bind-mounted: the mount keeps the old one.
//
// Where the file is the stub of systemd-resolved, pods are better served with the file
// behind it ([UplinkAuto]). A [Snapshot] then has both: what pods are to get, and what the
// kubelet hands out, which is compared with it.
//
// # Who owns what
//
// The constructor starts no goroutine. The one that calls Run owns the debounce, the
// poll and the watches. Each set of watches has one goroutine that turns the
// kernel's events into a signal; Run ends it before it starts the next, and before
// it returns. Whoever reads the file, Run or [Watcher.Refresh], holds a mutex while
// it does and is the only writer of the current snapshot. Readers take an atomic
// pointer and never wait.
package hostresolv
