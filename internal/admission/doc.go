// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission checks the DNS settings and host names of pods, and of objects that
// create pods, before anything runs. It finds what the API server would refuse, what the
// node would refuse, what the node would cut, and what fails in every container.
//
// [Rules] are created once for the node facts of a cluster and check any number of objects.
// They are pure, as is the policy engine on which they are based. The caller acts on the
// findings: a command prints them, an admission server denies or warns (see [NewVerdict]).
//
// [PolicyConfig] writes the rules as admission policies, which the API server runs itself.
//
// docs/checks.md lists the rules with their limits and sources; test/vectors has vectors
// for each of them on both sides of its limit.
package admission
