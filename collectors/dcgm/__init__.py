"""dcgm-exporter's metrics text: samples, inventory and, where it names pods or jobs by id, who held what."""
