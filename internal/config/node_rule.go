// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// checkNodeRules returns all problems of rules, each with the path of its field.
func checkNodeRules(rules []v1alpha1.NodeRule) error {
	var problems []error
	for _, p := range policy.CheckNodeRules(newNodeRules(rules)) {
		problems = append(problems, belowError{p.Field, errors.New(p.Problem)})
	}
	return errors.Join(problems...)
}

// newNodeRules returns rules as the policy engine has them.
func newNodeRules(rules []v1alpha1.NodeRule) (list []policy.NodeRule) {
	for _, r := range rules {
		n := policy.NodeRule{
			Namespaces: r.Namespaces, PodLabels: r.PodLabels,
			Options: setList(r.Options), HostOptions: r.HostOptions, HostSearches: setList(r.HostSearches),
			DropUnreachable: r.DropUnreachable, DropDuplicates: r.DropDuplicates, PodFirst: r.PodFirst,
			SubdomainSearch: policy.Placement(r.SubdomainSearch), HostNetworkAsCluster: r.HostNetworkAsCluster,
			ServerFamilies: policy.FamilyChoice(r.ServerFamilies),
		}
		for _, p := range r.Policies {
			n.Policies = append(n.Policies, policy.Policy(p))
		}
		list = append(list, n)
	}
	return list
}

// setList returns nil for an absent list only.
func setList(list *[]string) []string {
	if list == nil {
		return nil
	}
	return append([]string{}, *list...)
}
