// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Policy is the order in which the servers are tried. Servers that may be down are always last.
type Policy string

const (
	// Sequential is the order of the list, as the C libraries try servers.
	Sequential Policy = "sequential"
	// Random is a random order for each query.
	Random Policy = "random"
	// RoundRobin begins with the next server for each query.
	RoundRobin Policy = "roundRobin"
)

// Policies returns all policies.
func Policies() []string { return []string{string(Sequential), string(Random), string(RoundRobin)} }

// validate returns an error unless p is a policy.
func (p Policy) validate() error {
	if !slices.Contains(Policies(), string(p)) {
		return fmt.Errorf("policy %q: want one of %q", p, Policies())
	}
	return nil
}

// order returns the servers in the order of the policy, with those that may be down at the end.
// Looping servers are left out.
func (c *Client) order(servers []*server) []*server {
	list := slices.DeleteFunc(slices.Clone(servers), (*server).isLooping)
	switch n := len(list); {
	case n < 2:
		return list
	case c.cfg.Policy == Random:
		rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	case c.cfg.Policy == RoundRobin:
		first := int(c.turns.Add(1) % uint64(n))
		list = slices.Concat(list[first:], list[:first])
	}
	var up, down []*server
	for _, s := range list {
		if s.mayBeDown() {
			down = append(down, s)
		} else {
			up = append(up, s)
		}
	}
	return append(up, down...)
}
