// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxfile replaces the text of the resolv.conf that a container runtime has
// mounted into the containers of a pod.
//
// The runtime writes one file for each sandbox and bind-mounts it. A file that is renamed over
// it would not be seen by running containers, so the text is replaced in place, by one write of
// at most one page:
//
//   - The kernel copies a page as a whole or not at all, even if the process is killed or the
//     disk is full. The file is never truncated and never shrinks.
//   - The size is a multiple of 512 from the first write on, so that a reader during a write
//     finds neither an empty file nor the end of an older text.
//   - Each line is at the start of a slot of 64 bytes, at the same offset in the old and the new
//     text. A read during a write gets most lines from one of both texts, and all of them parse.
//   - Comments record the text of the container runtime, over any number of writes. [Original]
//     returns it, and [File.Restore] writes it back.
//   - The last line is a comment with the digest of all bytes before it. A later change by the
//     pod is recognized, and the file is then left unchanged.
//
// A read at the same time as a write may return a mixture of both texts, which no system call
// prevents. [File.Touch] makes glibc read the file again.
package sandboxfile
