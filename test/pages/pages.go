// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a code block of a page.
type Block struct {
	Page    string // path in the repository
	Line    int    // of its first line
	Section string // the heading above it
	Note    string // the comment before it; "": none
	Text    string // without its indentation
}

// programs are the first words of commands.
const programs = " apt-get bin/dnsconfigurer cat conntrack crictl ctr curl dig dnsconfigurer docker dpkg echo etcdctl export " +
	"for git go grep helm if install ip jq journalctl k3s kind kubeadm kubectl make mkdir nft " +
	"nsenter openssl rpm sed skopeo sudo systemctl while "

// IsCommands reports whether the block is commands, without their output.
func (b Block) IsCommands() bool {
	first, rest, _ := strings.Cut(b.Text, " ")
	return rest != "" && strings.Contains(programs, " "+first+" ")
}

// Example returns the command of a block that begins with "$ ", and the output below it. "" is not
// an example.
func (b Block) Example() (command, output string) {
	text, ok := strings.CutPrefix(b.Text, "$ ")
	if !ok {
		return "", ""
	}
	command, output, _ = strings.Cut(text, "\n")
	return command, output
}

// Read returns the blocks of the README, of CONTRIBUTING and of docs. root is the directory of
// the repository.
func Read(root string) (blocks []Block, err error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	files = append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		page, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, Parse(filepath.ToSlash(page), string(text))...)
	}
	return blocks, nil
}

var comment = regexp.MustCompile(`^\s*<!-- (.*) -->$`)

// Parse returns the blocks of a page: those in fences, and those that are indented by four columns
// or more behind an empty line.
func Parse(page, text string) (blocks []Block) {
	lines := strings.Split(text, "\n")
	var section, note string
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		var end int
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "```"):
			end = fenceEnd(lines, i)
			blocks = append(blocks, newBlock(page, i+1, section, note, lines[i+1:end]))
			i = end
		case depth(lines[i]) >= 4 && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			end = indentEnd(lines, i)
			blocks = append(blocks, newBlock(page, i, section, note, lines[i:end]))
			i = end - 1
		case strings.HasPrefix(lines[i], "#"):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		note = ""
		if m := comment.FindStringSubmatch(line); m != nil {
			note = m[1]
		}
	}
	return blocks
}

func depth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// fenceEnd returns the index of the line that ends the fence in line i; behind the last line if
// there is none.
func fenceEnd(lines []string, i int) int {
	for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); i++ {
	}
	return i
}

// indentEnd returns the index of the line behind the indented block that begins in line i.
func indentEnd(lines []string, i int) int {
	least, end := depth(lines[i]), i
	for ; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "" {
			continue
		}
		if depth(lines[i]) < least {
			break
		}
		end = i + 1
	}
	return end
}

// newBlock returns a block whose first line is the one with an index.
func newBlock(page string, index int, section, note string, lines []string) Block {
	b := Block{Page: page, Line: index + 1, Section: section, Note: note}
	if len(lines) == 0 {
		return b
	}
	indent := depth(lines[0])
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line[min(indent, depth(line)):] + "\n")
	}
	b.Text = text.String()
	return b
}
