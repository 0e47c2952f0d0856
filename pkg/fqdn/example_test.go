// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn_test

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func ExampleParseName() {
	name, err := fqdn.ParseName("Web.Default.svc.cluster.local")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name)
	label, parent := name.Cut()
	fmt.Println(label, parent)
	// Output:
	// web.default.svc.cluster.local.
	// web default.svc.cluster.local.
}

func ExampleName_Within() {
	zone, _ := fqdn.ParseName("cluster.local")
	for _, text := range []string{"web.cluster.local", "cluster.local", "web.example"} {
		name, _ := fqdn.ParseName(text)
		below, ok := name.Within(zone)
		fmt.Printf("%q %t\n", below, ok)
	}
	// Output:
	// "web." true
	// "" true
	// "" false
}

func ExampleLabelProblems() {
	fmt.Println(fqdn.LabelProblems("web-0"))
	fmt.Println(fqdn.LabelProblems("web.0"))
	// Output:
	// []
	// [must not contain dots]
}

func ExampleDomainProblem() {
	fmt.Printf("%q\n", fqdn.DomainProblem("corp.example"))
	fmt.Printf("%q\n", fqdn.DomainProblem("corp..example"))
	// Output:
	// ""
	// "has an empty label"
}

func ExampleCutHostname() {
	fmt.Println(fqdn.CutHostname("a-statefulset-with-a-name-that-is-longer-than-the-limit-of-63-by-4"))
	// Output:
	// a-statefulset-with-a-name-that-is-longer-than-the-limit-of-63-b
}
