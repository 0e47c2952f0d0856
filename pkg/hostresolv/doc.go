// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostresolv watches the host's resolv.conf and publishes immutable snapshots of it.
//
// The kubelet opens the file for every pod, and the pod fails if the file is half-written,
// empty or missing at this moment. The users of this package do not: they get the last good
// file, are notified of a newer one, and can report why the current one is not used.
//
// [New] reads the file once, so [Watcher.Current] is valid from the start. [Watcher.Run]
// keeps it up to date:
//
//	links on the path --inotify--+
//	the file itself ---inotify---+--> debounce --> read --> validate --> publish
//	poll ------------------------+
//
// The host's resolv.conf is written by rename, by truncation, through links that are replaced
// and through bind mounts. Run therefore watches every directory on the path, from the root
// on, in which a link, the next directory or the file may be replaced. It also watches the
// file itself: if a file is bind-mounted and written through its source, its directory has
// no event. The poll finds changes without inotify events, on network file systems and by
// mounts over the file. One change is invisible: if the source of a bind mount is replaced
// by rename, the mount keeps the old file.
//
// If the file is the stub file of systemd-resolved, pods can get the uplink file instead
// ([UplinkAuto]). A [Snapshot] then has both files: the one for pods, and the one that the
// kubelet gives to pods, for comparison.
//
// # Concurrency
//
// New starts no goroutine. The goroutine that calls Run owns the debounce, the poll and the
// watches. Each set of watches has one goroutine, which turns events into a signal; Run ends
// it before it starts the next one, and before it returns. Run and [Watcher.Reread] read
// the file with a mutex held, and only the holder publishes snapshots. Readers load an
// atomic pointer and never wait.
//
// The API of this package may change in any release. The stable packages are pkg/policy,
// pkg/resolvconf and pkg/fqdn.
package hostresolv
