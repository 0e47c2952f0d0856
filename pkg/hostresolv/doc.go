// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostresolv watches the host's resolv.conf and publishes immutable snapshots of it.
//
// The kubelet opens the file for every pod, and the pod fails if the file is half-written,
// empty or missing at this moment. The users of this package do not: they get the last good
// file, are notified of a newer one, and can report why the current one is not used.
//
// [New] reads the file once, so [Watcher.Current] is valid from the start. [Watcher.Run]
// keeps it up to date: twice a second it calls stat(2), and reads the file if the result has
// changed. It publishes what two polls have found, because a file may be half-written at one.
//
// The host's resolv.conf is written by rename, by truncation, through links that are replaced
// and through bind mounts. Stat finds all of them; inotify needs a watch on each directory
// of the path and has no event for a mount. One change is invisible: if the source of a bind
// mount is replaced by rename, the mount keeps the old file.
//
// If the file is the stub file of systemd-resolved, pods can get the uplink file instead
// ([Config].Uplink). A [Snapshot] then has both files: the one for pods, and the one that the
// kubelet gives to pods, for comparison.
//
// # Concurrency
//
// New starts no goroutine. Run and [Watcher.Reread] read the file with a mutex held, and only
// the holder publishes snapshots. Readers load an atomic pointer and never wait.
//
// The API of this package may change in any release. The stable packages are pkg/policy,
// pkg/resolvconf and pkg/fqdn.
package hostresolv
