// Prints what containerlab's own types make of topologies: a list of paths in, a list of answers out, in JSON.
//
// It is compiled as a command of containerlab's module, from a checkout of it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hellt/envsubst"
	"github.com/srl-labs/containerlab/links"
	"github.com/srl-labs/containerlab/types"
	"github.com/srl-labs/containerlab/utils"
	"gopkg.in/yaml.v2"
)

// As core.Config, whose package brings all runtimes.
type config struct {
	Name     string
	Prefix   *string
	Mgmt     *types.MgmtNet
	Settings *types.Settings
	Topology *types.Topology
	Debug    bool
}

type node struct {
	Kind       string            `json:"kind"`
	Image      string            `json:"image"`
	Pull       string            `json:"pull"`
	Env        map[string]string `json:"env"`
	Exec       []string          `json:"exec"`
	Binds      []string          `json:"binds"`
	Ports      []string          `json:"ports"`
	Sysctls    map[string]string `json:"sysctls"`
	CPU        float64           `json:"cpu"`
	Memory     string            `json:"memory"`
	Privileged bool              `json:"privileged"`
	Entrypoint string            `json:"entrypoint"`
	Cmd        string            `json:"cmd"`
	User       string            `json:"user"`
	Hostname   string            `json:"hostname"`
	Network    string            `json:"network"`
	Restart    string            `json:"restart"`
	MgmtIPv4   string            `json:"mgmt-ipv4"`
}

type answer struct {
	Error string            `json:"error,omitempty"`
	Name  string            `json:"name"`
	Nodes map[string]node   `json:"nodes"`
	Links []json.RawMessage `json:"links"`
}

func main() {
	var paths []string
	if err := json.NewDecoder(os.Stdin).Decode(&paths); err != nil {
		panic(err)
	}
	answers := make([]answer, len(paths))
	for n, path := range paths {
		found, err := read(path)
		if err != nil {
			found = answer{Error: err.Error()}
		}
		answers[n] = found
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func read(path string) (found answer, err error) {
	// A node that is not there makes some of its functions panic, in containerlab, too.
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	text, err := os.ReadFile(path)
	if err != nil {
		return found, err
	}
	// core/file.go, LoadTopologyFromFile, without templates.
	text, err = envsubst.BytesRestrictedNoReplace(text, false, false, true, true)
	if err != nil {
		return found, err
	}
	conf := config{Mgmt: new(types.MgmtNet), Topology: types.NewTopology()}
	if err = yaml.UnmarshalStrict(text, &conf); err != nil {
		return found, err
	}
	topology := conf.Topology
	topology.ImportEnvs()
	found.Name, found.Nodes = conf.Name, map[string]node{}
	for name := range topology.Nodes {
		made, err := one(topology, name, filepath.Dir(path))
		if err != nil {
			return found, fmt.Errorf("node %s: %w", name, err)
		}
		found.Nodes[name] = made
	}
	for _, each := range topology.Links {
		made, err := json.Marshal(struct {
			Type links.LinkType
			Link links.RawLink
		}{each.Link.GetType(), each.Link})
		if err != nil {
			return found, err
		}
		found.Links = append(found.Links, made)
	}
	return found, nil
}

// What createNodeCfg in core/config.go asks a topology for.
func one(t *types.Topology, name, folder string) (node, error) {
	made := node{
		Kind:       strings.ToLower(t.GetNodeKind(name)),
		Image:      t.GetNodeImage(name),
		Pull:       string(t.GetNodeImagePullPolicy(name)),
		Exec:       t.GetNodeExec(name),
		Sysctls:    t.GetSysCtl(name),
		CPU:        t.GetNodeCPU(name),
		Memory:     t.GetNodeMemory(name),
		Privileged: t.GetNodePrivileged(name, true),
		Entrypoint: t.GetNodeEntrypoint(name),
		Cmd:        t.GetNodeCmd(name),
		User:       t.GetNodeUser(name),
		Hostname:   t.GetNodeHostname(name),
		Network:    strings.ToLower(t.GetNodeNetworkMode(name)),
		Restart:    t.GetRestartPolicy(name),
	}
	if own := t.Nodes[name]; own != nil {
		made.MgmtIPv4 = own.MgmtIPv4
	}
	// core/config.go, addEnvVarsToNodeCfg: a node's own variables before those of files.
	files, err := utils.LoadEnvVarFiles(folder, t.GetNodeEnvFiles(name))
	if err != nil {
		return made, err
	}
	made.Env = utils.MergeStringMaps(files, t.GetNodeEnv(name))
	if made.Binds, err = t.GetNodeBinds(name); err != nil {
		return made, err
	}
	_, ports, err := t.GetNodePorts(name)
	if err != nil {
		return made, err
	}
	for to, all := range ports {
		for _, port := range all {
			made.Ports = append(made.Ports, fmt.Sprintf("%s|%s|%s", port.HostIP, port.HostPort, to))
		}
	}
	sort.Strings(made.Ports)
	return made, nil
}
