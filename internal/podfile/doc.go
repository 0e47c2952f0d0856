// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package podfile replaces the text of the resolv.conf that a container runtime has
// mounted into the containers of a pod.
//
// The runtime writes one file for each sandbox and bind-mounts it. A file that is renamed over
// it would not be seen by running containers, so the text is replaced in place:
//
//   - The file is never truncated and never shrinks. Its size is a multiple of 512, and at most a
//     page, from the first write on, so that a reader during a write finds neither an empty file nor
//     the end of an older text.
//   - The lines of the configuration are as they were given. Padding is in comments only: some
//     resolvers do not accept a blank at the end of a line.
//   - New lines are written as comments, beside the lines of the old text. Then their first bytes
//     appear, and those of the old lines become "#". A read during a write returns lines of the old
//     and of the new text, and no others. The old lines stay as comments until the next write.
//   - If the process is killed during a write, the last line says so: [Unfinished]. The file has the
//     lines of the old text, the new one, or both.
//   - Comments record the text of the container runtime, over any number of writes. [Original]
//     returns it, and [File.Restore] writes it back.
//   - The last line is a comment with the digest of all bytes before it. A later change by the
//     pod is recognized, and the file is then left unchanged.
//
// [File.Touch] makes glibc read the file again.
//
// [Event] is the protocol in which the relay tells the agent about these files: one JSON object in a
// line, over a unix socket. The agent acknowledges events with a sequence number when it has done its work.
package podfile
