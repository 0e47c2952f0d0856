// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission says of a pod, or of an object that makes pods, what is wrong
// with its DNS and its host name, before anything runs: what the API server would
// refuse, what the node would refuse, what the node would cut, and what works in no
// container.
//
// [Rules] are made once for the facts that hold in a cluster and judge any number of
// objects. They are pure, as is the policy engine that answers for the node. What
// follows from a finding is the caller's: a command prints it, an admission server
// denies or warns, see [Judge].
//
// docs/admission.md lists the rules with their limits and sources; test/vectors has
// each of them on both sides of its limit.
package admission
