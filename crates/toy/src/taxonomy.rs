//! Biological taxonomy of the living toy classes: seven ranks, general to specific.

use super::classes::ToyClass;

/// The ranks of [`taxon`].
pub const RANKS: [&str; 7] = ["kingdom", "phylum", "class", "order", "family", "genus", "species"];

/// The taxon, kingdom to species, of a typical species of the class; `None` for classes that are not living beings.
pub fn taxon(class: ToyClass) -> Option<[&'static str; 7]> {
    let name = class.name();
    let (_, phylum, ranks) = TAXA.iter().find(|(living, ..)| *living == name)?;
    let kingdom = if *phylum == PLANT { "Plantae" } else { "Animalia" };
    let [class, order, family, genus, species] = *ranks;
    Some([kingdom, phylum, class, order, family, genus, species])
}

const CHORDATE: &str = "Chordata";
const ARTHROPOD: &str = "Arthropoda";
const PLANT: &str = "Tracheophyta";

/// Class name, phylum, and the ranks class to species.
const TAXA: &[(&str, &str, [&str; 5])] = &[
    ("duck", CHORDATE, ["Aves", "Anseriformes", "Anatidae", "Anas", "Anas platyrhynchos"]),
    ("swan", CHORDATE, ["Aves", "Anseriformes", "Anatidae", "Cygnus", "Cygnus olor"]),
    ("penguin", CHORDATE, ["Aves", "Sphenisciformes", "Spheniscidae", "Aptenodytes", "Aptenodytes forsteri"]),
    (
        "flamingo",
        CHORDATE,
        ["Aves", "Phoenicopteriformes", "Phoenicopteridae", "Phoenicopterus", "Phoenicopterus roseus"],
    ),
    ("parrot", CHORDATE, ["Aves", "Psittaciformes", "Psittacidae", "Ara", "Ara macao"]),
    ("owl", CHORDATE, ["Aves", "Strigiformes", "Strigidae", "Bubo", "Bubo bubo"]),
    ("rooster", CHORDATE, ["Aves", "Galliformes", "Phasianidae", "Gallus", "Gallus gallus"]),
    ("eagle", CHORDATE, ["Aves", "Accipitriformes", "Accipitridae", "Haliaeetus", "Haliaeetus leucocephalus"]),
    ("cat", CHORDATE, ["Mammalia", "Carnivora", "Felidae", "Felis", "Felis catus"]),
    ("dog", CHORDATE, ["Mammalia", "Carnivora", "Canidae", "Canis", "Canis familiaris"]),
    ("rabbit", CHORDATE, ["Mammalia", "Lagomorpha", "Leporidae", "Oryctolagus", "Oryctolagus cuniculus"]),
    ("horse", CHORDATE, ["Mammalia", "Perissodactyla", "Equidae", "Equus", "Equus caballus"]),
    ("cow", CHORDATE, ["Mammalia", "Artiodactyla", "Bovidae", "Bos", "Bos taurus"]),
    ("pig", CHORDATE, ["Mammalia", "Artiodactyla", "Suidae", "Sus", "Sus domesticus"]),
    ("sheep", CHORDATE, ["Mammalia", "Artiodactyla", "Bovidae", "Ovis", "Ovis aries"]),
    ("elephant", CHORDATE, ["Mammalia", "Proboscidea", "Elephantidae", "Loxodonta", "Loxodonta africana"]),
    ("giraffe", CHORDATE, ["Mammalia", "Artiodactyla", "Giraffidae", "Giraffa", "Giraffa camelopardalis"]),
    ("lion", CHORDATE, ["Mammalia", "Carnivora", "Felidae", "Panthera", "Panthera leo"]),
    ("whale", CHORDATE, ["Mammalia", "Artiodactyla", "Balaenopteridae", "Balaenoptera", "Balaenoptera musculus"]),
    ("dolphin", CHORDATE, ["Mammalia", "Artiodactyla", "Delphinidae", "Tursiops", "Tursiops truncatus"]),
    ("goldfish", CHORDATE, ["Actinopterygii", "Cypriniformes", "Cyprinidae", "Carassius", "Carassius auratus"]),
    (
        "seahorse",
        CHORDATE,
        ["Actinopterygii", "Syngnathiformes", "Syngnathidae", "Hippocampus", "Hippocampus hippocampus"],
    ),
    ("shark", CHORDATE, ["Chondrichthyes", "Lamniformes", "Lamnidae", "Carcharodon", "Carcharodon carcharias"]),
    ("turtle", CHORDATE, ["Reptilia", "Testudines", "Testudinidae", "Testudo", "Testudo hermanni"]),
    ("crocodile", CHORDATE, ["Reptilia", "Crocodylia", "Crocodylidae", "Crocodylus", "Crocodylus niloticus"]),
    ("snake", CHORDATE, ["Reptilia", "Squamata", "Pythonidae", "Python", "Python regius"]),
    ("butterfly", ARTHROPOD, ["Insecta", "Lepidoptera", "Nymphalidae", "Vanessa", "Vanessa atalanta"]),
    ("bee", ARTHROPOD, ["Insecta", "Hymenoptera", "Apidae", "Apis", "Apis mellifera"]),
    ("ladybird", ARTHROPOD, ["Insecta", "Coleoptera", "Coccinellidae", "Coccinella", "Coccinella septempunctata"]),
    ("fir", PLANT, ["Pinopsida", "Pinales", "Pinaceae", "Abies", "Abies alba"]),
    ("palm", PLANT, ["Liliopsida", "Arecales", "Arecaceae", "Cocos", "Cocos nucifera"]),
    ("oak", PLANT, ["Magnoliopsida", "Fagales", "Fagaceae", "Quercus", "Quercus robur"]),
    ("willow", PLANT, ["Magnoliopsida", "Malpighiales", "Salicaceae", "Salix", "Salix babylonica"]),
    ("tulip", PLANT, ["Liliopsida", "Liliales", "Liliaceae", "Tulipa", "Tulipa gesneriana"]),
    ("daffodil", PLANT, ["Liliopsida", "Asparagales", "Amaryllidaceae", "Narcissus", "Narcissus pseudonarcissus"]),
    ("rose", PLANT, ["Magnoliopsida", "Rosales", "Rosaceae", "Rosa", "Rosa gallica"]),
    ("sunflower", PLANT, ["Magnoliopsida", "Asterales", "Asteraceae", "Helianthus", "Helianthus annuus"]),
    ("cactus", PLANT, ["Magnoliopsida", "Caryophyllales", "Cactaceae", "Carnegiea", "Carnegiea gigantea"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_animals_and_plants_have_a_taxon() {
        for class in ToyClass::all() {
            let lives = class.is_a("animal") || class.is_a("plant");
            assert_eq!(taxon(class).is_some(), lives, "{class:?}");
        }
        assert!(TAXA.iter().all(|(name, ..)| ToyClass::named(name).is_some()));
    }

    #[test]
    fn a_species_begins_with_its_genus() {
        for (name, _, [.., genus, species]) in TAXA {
            assert!(species.starts_with(&format!("{genus} ")), "{name}");
        }
    }
}
